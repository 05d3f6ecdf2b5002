# test: fast
"""Timelines end to end: predicted as text, JSON and page; measured by a run of a sample and read back."""

import json
import re
import xml.etree.ElementTree

import onnx
from onnx import TensorProto, helper

import harness
from stages_model import PIPELINE, PIPELINE_MODEL

FOLDER = harness.scratch("timelines")
MODEL = harness.ROOT / "samples" / "mlp" / "mlp.onnxtxt"
OVERLAP = ["--schedule", harness.ROOT / "samples" / "mlp" / "tp2_overlap.yaml"]
SVG = "{http://www.w3.org/2000/svg}"
HOSTILE = "</title></script><script>alert(1)</script>\"'&"


def expect(name, result, wanted, *texts):
    status, out, err = result
    missing = [text for text in texts if text not in out + err]
    harness.check(name, status == wanted and not missing, f"exit {status}, not {wanted}; lacks {missing}: {(err or out)[-300:]}")
    return status == wanted


def page_of(name, path):
    """The page as a tree; it is XML, has no script, and fetches nothing."""
    text = path.read_text() if path.is_file() else ""
    try:
        tree = xml.etree.ElementTree.fromstring(text)
    except xml.etree.ElementTree.ParseError as error:
        harness.failed(name, error)
        return None
    fetches = [found for found in re.findall(r"(?:src|href)=|url\(|@import|<script", text)]
    harness.check(name, not fetches, f"{fetches}")
    return tree


def tips(tree):
    """The titles of the boxes."""
    return [title.text for rect in tree.iter(f"{SVG}rect") for title in rect.iter(f"{SVG}title")]


def check_predicted():
    page = FOLDER / "predicted.html"
    result = harness.weft("explain", MODEL, *OVERLAP, "--page", page)
    if not expect("explain/timeline", result, 0, "timeline, predicted for x86-64-v3 on one core with AVX2", "hidden: "):
        return
    lines = result[1][result[1].index("timeline, "):].splitlines()
    harness.check("explain/timeline/width", all(len(line) <= 100 for line in lines[1:]), max(lines[1:], key=len))
    tree = page_of("explain/page", page)
    said = tips(tree) if tree is not None else []
    far = [text for text in said if text.startswith("far (chunk 3)")]
    harness.check("explain/page/steps", len(said) == 2 * (1 + 4 + 4), f"{len(said)} boxes")
    wanted = ["nodes: proj, bias, residual", "tp2_overlap.yaml:", "bound by"]
    harness.check("explain/page/tip", far and all(text in far[0] for text in wanted), far)


def check_json():
    status, out, err = harness.weft("explain", MODEL, *OVERLAP, "--json", "--ceiling", "latency=2", "--ceiling", "step=1")
    line = json.loads(out)["timeline"] if status == 0 else {}
    # fc, four chunks of proj, four of far, which begin after the first proj and take 3 s each.
    seconds = [round(line.get(key, 0)) for key in ("seconds", "computation", "communication", "either")]
    harness.check("explain/json/timeline", seconds == [14, 5, 12, 14], f"exit {status}: {seconds} {err[-200:]}")
    harness.check("explain/json/hidden", round(line.get("hidden", 0), 3) == 0.6, line)
    expect("ceiling/unknown", harness.weft("explain", MODEL, "--ceiling", "lnik=1"), 2, "did you mean 'link'?")
    for value in ("", "=", "=-1", "=0", "=fast", "=nan", "=inf", "=1x"):
        expect(f"ceiling/link{value}", harness.weft("explain", MODEL, "--ceiling", f"link{value}"), 2, "link=NUMBER")
    expect("ceiling/chunked=2", harness.weft("explain", MODEL, "--ceiling", "chunked=2"), 2, "chunked=NUMBER")
    expect("page/no-file", harness.weft("explain", MODEL, "--page", FOLDER), 6, "[page-unwritable]")


def check_pipeline():
    """The order of a training's pipeline: a line for each rank, the same as JSON and in the page."""
    model, schedule, page = FOLDER / "stages.onnxtxt", FOLDER / "stages.yaml", FOLDER / "stages.html"
    model.write_text(PIPELINE_MODEL)
    schedule.write_text(PIPELINE)
    # So that blocks take about as long as each other.
    result = harness.weft("explain", model, "--schedule", schedule, "--page", page, "--ceiling", "latency=0", "--ceiling", "step=1e-6")
    if not expect("pipeline/text", result, 0, "order of 6 micro-batches on 3 ranks, predicted", "; no order is shorter"):
        return
    lines = result[1][result[1].index("order of 6 micro-batches") : result[1].index("timeline, ")].splitlines()
    lanes = [line for line in lines if line.startswith("  rank ")]
    harness.check("pipeline/width", all(len(line) <= 100 for line in lines), max(lines, key=len))
    turns = [lane.split("  ")[2] for lane in lanes]
    marks = [re.sub(f"[^{kind}]", "", turns[1]) for kind in ("0-9", "A-Z", "a-z")] if len(turns) == 3 else turns
    harness.check("pipeline/lanes", marks == ["012345", "ABCDEF", "abcdef"], lines)
    status, out, err = harness.weft("explain", model, "--schedule", schedule, "--json")
    said = json.loads(out)["pipeline"] if status == 0 else {}
    ranks = said.get("ranks", [])
    harness.check("pipeline/json", len(ranks) == 3 and all(rank["peak"] > 0 for rank in ranks), f"exit {status}: {said} {err[-200:]}")
    harness.check("pipeline/json/bubble", 0 < said["bubble"] < 1 and said["least_seconds"] <= said["seconds"], said)
    tree = page_of("pipeline/page", page)
    said = [text for text in tips(tree) if ", micro-batch " in text.splitlines()[0]] if tree is not None else []
    harness.check("pipeline/page/turns", len(said) == (3 + 3 + 2) * 6, len(said))  # the first stage makes gradients of weights only
    wanted = [text for text in said if text.startswith("b_weight, micro-batch 5\nrank 1: ") and " from " in text and " to " in text]
    harness.check("pipeline/page/tip", len(wanted) == 1, said[:3])
    schedule.write_text(PIPELINE.replace("pipeline:", "mesh: {dp: 2}\nshard: {x: {dp: 0}, target: {dp: 0}}\npipeline:"))
    expect("pipeline/of-slices", harness.weft("explain", model, "--schedule", schedule), 0, "order of 6 micro-batches on 6 ranks", "rank 5")
    status, out, _ = harness.weft("explain", MODEL, *OVERLAP, "--json")
    harness.check("pipeline/none", status == 0 and json.loads(out)["pipeline"] is None, out[-300:])


def check_sample_pipelines():
    """The samples' pipelines, of an inference and of trainings, for a small model."""
    flags = ["--layers", "4", "--width", "64", "--heads", "4", "--vocab", "503", "--context", "64"]
    model = harness.make_gpt2(FOLDER / "gpt2.onnx", *flags)
    sizes = ["--dim", "batch=2", "--dim", "seq=16"]
    for schedule, dims, ranks, wanted in (
        ("gpt2/pipeline2", sizes, 2, ["2 micro-batches on 2 ranks", "(0- 1-: forward passes of micro-batches 0, 1)"]),
        ("training/gpt2_pp2", [], 2, ["4 micro-batches on 2 ranks", "; A= B=: backward; #: once)"]),
        ("training/gpt2_dp2_tp2_pp2", [], 8, ["2 micro-batches on 8 ranks", "; A= B=: backward; a~ b~: of weights; #: once)"]),
    ):
        result = harness.weft("explain", model, "--schedule", harness.ROOT / "samples" / f"{schedule}.yaml", *dims, "--quiet")
        if expect(f"sample/{schedule}", result, 0, "predicted\n", *wanted):
            lanes = re.findall(r"^  rank \d+ +[0#.][-0-9A-Za-z=~#.]{60,}  +\d+ %  .*(?:KiB|MiB)$", result[1], re.MULTILINE)
            harness.check(f"sample/{schedule}/lanes", len(lanes) == ranks, lanes)


def check_hostile_names():
    """Names reach the page from the model; nothing there ends an element or begins another."""
    nodes = [helper.make_node("Exp", ["x"], ["h" + HOSTILE], name="n" + HOSTILE), helper.make_node("Neg", ["h" + HOSTILE], ["y"])]
    values = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [4]) for name in "xy"]
    model = FOLDER / "hostile.onnx"
    onnx.save(helper.make_model(helper.make_graph(nodes, "g", values[:1], values[1:]), opset_imports=[helper.make_opsetid("", 20)]), model)
    page = FOLDER / "hostile.html"
    if expect("hostile-names", harness.weft("explain", model, "--page", page), 0):
        tree = page_of("hostile-names/page", page)
        harness.check("hostile-names/said", tree is not None and any(HOSTILE in text for text in tips(tree)), tips(tree)[:2])


def check_measured():
    program, trace, page = FOLDER / "mlp", FOLDER / "trace.json", FOLDER / "measured.html"
    if not expect("trace/compile", harness.weft("compile", MODEL, *OVERLAP, "-o", program, "--quiet"), 0):
        return
    run = harness.run([program, "--random-inputs", "1", "--warmup", "1", "--iterations", "5", "--trace", trace])
    if not expect("trace/run", run, 0):
        return
    events = [event for event in json.loads(trace.read_text())["traceEvents"] if event["ph"] == "X"]
    kinds = {(event["name"], event["cat"]) for event in events}
    wanted = {("fc", "computation"), ("proj", "computation"), ("far", "communication")}
    harness.check("trace/kinds", kinds == wanted, kinds)
    harness.check("trace/iterations", {event["args"]["iteration"] for event in events} == set(range(5)), "not 0 to 4")
    expect("trace/text", harness.weft("trace", trace, "--page", page), 0, "of 5, of median length", "ranks 0 to 1", "far", "x4")
    tree = page_of("trace/page", page)
    harness.check("trace/page/steps", tree is not None and len(tips(tree)) <= 18 and tips(tree), "not the steps of an iteration")
    check_measured_json(events, trace)


def check_measured_json(events, trace):
    """Busy times of an iteration, against those found here."""
    mine = [event for event in events if event["args"]["iteration"] == 2]
    begin = min(event["ts"] for event in mine)
    computation = sum(event["dur"] - event["args"]["waited"] for event in mine if event["cat"] == "computation") / 2e6
    length = (max(event["ts"] + event["dur"] for event in mine) - begin) / 1e6
    status, out, err = harness.weft("trace", trace, "--iteration", "2", "--json")
    line = json.loads(out) if status == 0 else {"seconds": 0, "computation": 0}
    close = abs(line["seconds"] - length) < 1e-8 and abs(line["computation"] - computation) < 1e-8
    harness.check("trace/json", close, f"exit {status}: {line}, not {length} and {computation}; {err[-200:]}")
    expect("trace/all", harness.weft("trace", trace, "--iteration", "all"), 0, "measured, 5 iterations")
    expect("trace/no-iteration", harness.weft("trace", trace, "--iteration", "5"), 1, "there are 0 to 4", "[trace-iteration]")
    expect("trace/odd-iteration", harness.weft("trace", trace, "--iteration", "last"), 2)
    expect("trace/twice", harness.weft("trace", trace, trace), 1, "is also in", "[trace-text]")


def check_bad_traces():
    """Exit 1 with a position, whatever the file holds; test/cli/timeline_test.cpp has the messages."""
    bad = FOLDER / "bad.json"
    expect("trace/no-file", harness.weft("trace", FOLDER / "nowhere.json"), 1, "[trace-file]")
    expect("trace/folder", harness.weft("trace", FOLDER), 1, "error:")
    good = '{"traceEvents": [{"ph": "X", "pid": 0, "tid": 0, "ts": 1, "dur": 2, "cat": "computation", "name": "a", "args": {"iteration": 0}}]}'
    texts = [good[:at] for at in range(0, len(good), 3)] + ["\x00", "[" * 100000, good.replace("2", "1e999"), good.replace('"a"', '"\\ud8"')]
    wrong = []
    for text in texts:
        bad.write_text(text)
        status, _, err = harness.weft("trace", bad)
        if status != 1 or not re.search(r"bad\.json:\d+:\d+: error: .*\[trace-text\]", err):
            wrong.append(f"{text[-20:]!r}: exit {status} {err[:100]}")
    harness.check("trace/cut-anywhere", not wrong, wrong[:3])
    bad.write_text(good)
    expect("trace/whole", harness.weft("trace", bad), 0, "no communication")
    bad.write_text('{"traceEvents": []}')
    expect("trace/empty", harness.weft("trace", bad), 1, "[trace-empty]")


harness.need_weft()
check_predicted()
check_json()
check_pipeline()
if harness.FULL:
    check_sample_pipelines()
check_hostile_names()
check_measured()
check_bad_traces()
