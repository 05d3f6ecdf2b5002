# test: slow
"""Trainings in stages: every order takes the steps of one rank, goes on from its checkpoint, and evaluates as it does. Some
by default, all in `full`."""

import json
import re

import harness
import numpy as np
from training_runs_check import SPLITS, TRAIN, build, check_evaluation, check_run, check_split, losses, train, write_data

# By name: the schedule's text before `train:`. Four micro-batches of two samples.
PIPELINE = "pipeline: {{stages: {stages}, micro_batches: 4, order: {order}}}\n"
TWO, FOUR = "{front: [h1, h2], back: rest}", "{a: h1, b: h2, c: h, d: rest}"
STAGES = {order: PIPELINE.format(stages=TWO, order=order) for order in ("gpipe", "1f1b", "zb-h1")}
STAGES["cut_by_time"] = PIPELINE.format(stages=3, order="1f1b")
STAGES["four"] = PIPELINE.format(stages=FOUR, order="1f1b")
STAGES["of_slices"] = SPLITS["data_parallel"] + PIPELINE.format(stages=TWO, order="zb-h1")
STAGES["of_sliced_parameters"] = SPLITS["sliced_parameters"] + PIPELINE.format(stages=TWO, order="1f1b")
STAGES["of_tensor_parallel"] = SPLITS["tensor_parallel"] + PIPELINE.format(stages=TWO, order="1f1b")
STAGES["twice_at_a_place"] = """places: {p: {ranks: [0], mesh: {}}, q: {ranks: [1], mesh: {}}}
pipeline:
  stages: {a: {place: p, nodes: h1}, b: {place: q, nodes: h2}, c: {place: p, nodes: h}, d: {place: q, nodes: rest}}
  micro_batches: 4
  order: interleaved
"""
STAGES["there_and_back"] = """places: {p: {ranks: [0], mesh: {}}, q: {ranks: [1], mesh: {}}}
pipeline:
  stages: {a: {place: p, nodes: h1}, b: {place: q, nodes: h2}, c: {place: q, nodes: h}, d: {place: p, nodes: rest}}
  micro_batches: 4
  order: 1f1b
"""
STAGES["on_shared_ranks"] = """places: {all: {ranks: [0, 1], mesh: {t: 2}}, p: {ranks: [0], mesh: {}}, q: {ranks: [1], mesh: {}}}
shard: {w2: {t: 0}}
pipeline:
  stages: {a: {place: p, nodes: h1}, b: {place: q, nodes: [h2, h]}, c: {place: all, nodes: rest}}
  micro_batches: 4
  order: 1f1b
"""
STAGES["by_a_table"] = """pipeline:
  stages: {front: [h1, h2], back: rest}
  micro_batches: 2
  order: [[front.forward, 0], [back.forward, 0], [front.forward, 1], [back.backward, 0], [back.forward, 1], [front.backward, 0],
          [back.backward, 1], [front.backward, 1]]
"""
STAGES["searched"] = PIPELINE.format(stages=TWO, order="search")
STAGES["searched_with_split_backward"] = PIPELINE.format(stages=FOUR, order="{search: {periods: 2}}, backward: split")
STAGES["one_micro_batch"] = "pipeline: {stages: {front: [h1, h2], back: rest}, micro_batches: 1}\n"
USUAL = ("zb-h1", "cut_by_time", "twice_at_a_place", "on_shared_ranks")


def emitted(folder, name, stages):
    """The sources of a program, by file."""
    (folder / f"{name}.yaml").write_text("weft: 1\n" + stages + TRAIN)
    out = folder / f"{name}_sources"
    status, _, err = harness.weft("compile", folder / "net.onnxtxt", "--schedule", folder / f"{name}.yaml", "--emit", "source", "-o", out)
    harness.check(f"{name}/emits sources", status == 0, err[-300:])
    return {file.name: file.read_bytes() for file in sorted(out.rglob("*")) if file.suffix in (".cpp", ".h")}


def check_search(folder):
    """The order that is found is printed as a table, which reproduces it; and limits that no order can keep."""
    for name, more in (("whole", ""), ("split", ", backward: split")):
        first = emitted(folder, f"to_search_{name}", PIPELINE.format(stages=FOUR, order="search" + more))
        status, out, err = harness.weft("explain", folder / "net.onnxtxt", "--schedule", folder / f"to_search_{name}.yaml")
        table = re.search(r"^  order: (\[\[.*\]\])$", out, re.MULTILINE)
        if not harness.check(f"search/{name}: explain says the table", status == 0 and table, err[-300:]):
            continue
        proved = re.search(r"^searched order: period of 1 micro-batch: .*, proved optimal$", out, re.MULTILINE)
        harness.check(f"search/{name}: proved", proved, out[-600:])
        replayed = emitted(folder, f"replayed_{name}", PIPELINE.format(stages=FOUR, order=table[1] + more))
        harness.check(f"search/{name}: the table gives the same program", first == replayed)
    (folder / "tight.yaml").write_text("weft: 1\n" + PIPELINE.format(stages=TWO, order="{search: {memory: 64}}") + TRAIN)
    status, _, err = harness.weft("explain", folder / "net.onnxtxt", "--schedule", folder / "tight.yaml")
    found = re.search(r"tight.yaml:2:\d+: error: no order keeps the limit .*: rank 1 needs (\d+) bytes at least \[order-memory\]", err)
    if harness.check("search/the least memory is said", status == 1 and found, f"exit {status}: {err[-300:]}"):
        (folder / "enough.yaml").write_text((folder / "tight.yaml").read_text().replace("memory: 64", f"memory: {found[1]}"))
        status, _, err = harness.weft("explain", folder / "net.onnxtxt", "--schedule", folder / "enough.yaml")
        harness.check("search/and is enough", status == 0, f"exit {status}: {err[-300:]}")


def check_trace(folder, name, blocks):
    """The measured order beside the predicted one: every step names its block, and a trace of another schedule is
    refused."""
    trace, page, model = folder / f"{name}.trace.json", folder / f"{name}.html", folder / "net.onnxtxt"
    status, _, err = train(folder, folder / name, "--steps", 5, "--trace", trace)
    if not harness.check(f"trace/{name}: runs", status == 0, err[-300:]):
        return
    steps = [event for event in json.loads(trace.read_text())["traceEvents"] if event["ph"] == "X"]
    found = {(step["args"].get("block"), step["args"].get("pass")) for step in steps}
    harness.check(f"trace/{name}: blocks", found >= blocks and all(block for block, _ in found), found)
    batches = {step["args"]["micro_batch"] for step in steps if step["args"].get("pass") == "weight"}
    harness.check(f"trace/{name}: micro-batches", batches == set(range(4)), batches)
    command = ["trace", trace, "--model", model, "--schedule"]
    status, out, err = harness.weft(*command, folder / f"{name}.yaml", "--quiet", "--json")
    if not harness.check(f"trace/{name}: beside the prediction", status == 0, err[-300:]):
        return
    said = json.loads(out)["pipeline"]
    _, explained, _ = harness.weft("explain", model, "--schedule", folder / f"{name}.yaml", "--quiet", "--json")
    harness.check(f"trace/{name}: predicted", said["predicted"] == json.loads(explained)["pipeline"], said["predicted"])
    ranks = said["measured"]["ranks"]
    mean = sum(rank["busy"] for rank in ranks) / len(ranks) / said["measured"]["seconds"]
    harness.check(f"trace/{name}: bubble", 0 < said["bubble"] < 1 and abs(said["measured"]["bubble"] + mean - 1) < 1e-9, said)
    status, out, err = harness.weft(*command, folder / f"{name}.yaml", "--quiet", "--page", page)
    text = f"bubble {round(100 * said['bubble'])} % in the median of all iterations, predicted {round(100 * said['predicted']['bubble'])} %"
    boxes = len(re.findall('<rect class="turn ', page.read_text())) if page.is_file() else 0
    harness.check(f"trace/{name}: said", status == 0 and text in out and text in page.read_text(), err[-300:] or out[:2000])
    harness.check(f"trace/{name}: drawn twice", boxes > 2 * 2 * 4 * 2, boxes)
    status, _, err = harness.weft(*command, folder / "cut_by_time.yaml", "--quiet")
    harness.check(f"trace/{name}: of another schedule", status == 1 and "this is no trace of the pipeline" in err and "[trace-order]" in err, err[-300:])


def check_same(folder, name, head, train_text):
    """In stages as on one rank, what the losses of the other cases do not say."""
    found = []
    for stages in ("", PIPELINE.format(stages=TWO, order="1f1b")):
        program = build(folder, f"{name}_{'stages' if stages else 'one'}", head + stages, train_text=train_text)
        status, _, err = train(folder, program, "--steps", 40, "--shuffle", "7", "--log", folder / f"{name}.jsonl") if program else (1, "", "")
        if not harness.check(f"{name}/runs{' in stages' if stages else ''}", status == 0, f"exit {status}: {err[-300:]}"):
            return
        found.append(losses(folder / f"{name}.jsonl"))
    error = np.abs(found[1] / found[0] - 1).max()
    harness.check(f"{name}/losses of one rank", error < 2e-5, error)


def main():
    folder = harness.scratch("training_stages")
    write_data(folder)
    program = build(folder, "one")
    wanted = check_run(folder, program) if program else None
    if wanted is None:
        return
    for name in STAGES if harness.FULL else USUAL:
        check_split(folder, name.replace("-", "_"), STAGES[name], wanted)
    check_trace(folder, "zb_h1", {("front_forward", "forward"), ("front_backward", "backward"), ("back_weight", "weight"), ("back_update", "once")})
    check_search(folder)
    check_split(folder, "computed_again", STAGES["1f1b"], wanted, "  recompute: all\n")
    check_same(folder, "scaled_loss", "precision: fp16\n", TRAIN)
    check_same(folder, "adafactor", "", TRAIN.replace("adamw", "adafactor"))
    for name in ("1f1b", "of_slices", "on_shared_ranks") if harness.FULL else ("of_slices",):
        check_evaluation(folder, f"evaluation_{name}", STAGES[name], "", wanted)


if __name__ == "__main__":
    harness.need_weft()
    main()
