# test: slow
"""`weft profile`: what it measures, what the search makes of it, and profiles that are refused. More programs in `full`."""

import json
import re

import harness

FOLDER = harness.scratch("profile")
MODEL = """<ir_version: 10, opset_import: ["" : 20]>
net (float[8, 32] x) => (float[8, 8] scores)
<float[32, 256] w1 = random(1, 0.1), float[256] b1 = random(2, 0.1), float[256, 8] w2 = random(3, 0.1)>
{
  h1 = MatMul(x, w1)
  h2 = Add(h1, b1)
  h = Relu(h2)
  scores = MatMul(h, w2)
}
"""
TRAIN = """train:
  inputs: {labels: "int64[8]"}
  loss: {cross_entropy: {scores: scores, labels: labels}}
  optimizer: {adamw: {rate: 1e-2}}
"""
PIPELINE = "pipeline: {{stages: {{front: [{nodes}], back: rest}}, micro_batches: {count}, order: {order}}}\n"
PASSES = {"front.forward", "front.backward", "back.forward", "back.backward"}


def schedule(name, order="search", nodes="h1, h2", count=4, train=TRAIN, pipeline=PIPELINE):
    path = FOLDER / f"{name}.yaml"
    path.write_text("weft: 1\n" + pipeline.format(nodes=nodes, count=count, order=order) + train)
    return path


def weft(verb, path, *flags, model="net"):
    return harness.weft(verb, FOLDER / f"{model}.onnxtxt", "--schedule", path, *flags)


def profile(name, path, blocks, count, *flags):
    """The profile, after a look at it."""
    file = FOLDER / f"{name}.json"
    status, out, err = weft("profile", path, "-o", file, "--iterations", "5", "--quiet", *flags)
    if not harness.check(f"{name}/runs", status == 0, f"exit {status}: {err[-300:]}"):
        return None
    made = json.loads(file.read_text())
    runs = {block["name"]: block["runs"] for block in made["blocks"]}
    harness.check(f"{name}/blocks", blocks <= set(runs) and all(runs[block] == count for block in blocks), runs)
    status, out_again, err = weft("explain", path, "--profile", file)
    harness.check(f"{name}/is read", status == 0 and "measured times: " in out_again, err[-300:])
    harness.check(f"{name}/is shown", all(block in out for block in blocks) and "peak memory" in out, out)
    harness.check(f"{name}/times", all(0 < row["time_ns"] < 10**9 for row in made["blocks"] + made["transfers"]), made)
    return made


def write(name, made, times=(), transfers=None, without=()):
    """A profile with other times, by block; of all transfers; without some blocks."""
    made = json.loads(json.dumps(made))
    made["blocks"] = [block for block in made["blocks"] if block["name"] not in without]
    for block in made["blocks"]:
        block["time_ns"] = dict(times).get(block["name"], block["time_ns"])
    for transfer in made["transfers"]:
        transfer["time_ns"] = transfers or transfer["time_ns"]
    file = FOLDER / f"{name}.json"
    file.write_text(json.dumps(made))
    return file


def found_order(path, *flags):
    """The table of the order, and the line of times."""
    status, out, err = weft("explain", path, *flags)
    table, times = re.search(r"^  order: (\[\[.*\]\])$", out, re.MULTILINE), re.search(r"^  (\w+ times: .*)$", out, re.MULTILINE)
    return (table[1], times[1]) if status == 0 and table and times else (err, "")


def check_search(made):
    path = FOLDER / "searched.yaml"
    harness.check("search/predicted without a profile", found_order(path)[1].startswith("predicted times: "))
    even = write("even", made, {block: 1000 for block in PASSES}, 1)
    slow = write("slow", made, {block: 1000 for block in PASSES}, 5000)
    order, times = found_order(path, "--profile", even)
    wanted = "measured times: front.forward 1.00 us, front.backward 1.00 us, back.forward 1.00 us, back.backward 1.00 us"
    harness.check("search/measured times", times == wanted, times or order)
    other, _ = found_order(path, "--profile", slow)
    harness.check("search/other times, another order", order.startswith("[[") and other.startswith("[[") and order != other, other)
    sources = []
    for name, flags in (("measured", ["--profile", even]), ("table", [])):
        used = path if flags else schedule("table", order)
        out = FOLDER / f"{name}_sources"
        status, _, err = weft("compile", used, "--emit", "source", "-o", out, "--quiet", *flags)
        harness.check(f"search/compiles, {name}", status == 0, err[-300:])
        sources.append((out / "program.cpp").read_bytes())
    harness.check("search/compile takes the order of explain", sources[0] == sources[1])


def check_given_order(made):
    good = write("good", made, {"front.forward": 7000})
    path = schedule("given", "1f1b")
    status, out, err = weft("explain", path, "--profile", good)
    harness.check("given order/explain shows the times", status == 0 and "measured times: front.forward 7.00 us" in out, err)
    status, _, err = weft("compile", path, "--profile", good, "--emit", "source", "-o", FOLDER / "given_sources", "--quiet")
    harness.check("given order/compile says that they are unused", status == 0 and "[profile-unused]" in err, err)


def check_refused(made):
    good = write("good", made)
    (FOLDER / "other.onnxtxt").write_text(MODEL.replace("Relu(h2)", "Tanh(h2)"))
    (FOLDER / "version.json").write_text(good.read_text().replace('"weft_profile": 1', '"weft_profile": 7'))
    (FOLDER / "text.json").write_text(good.read_text()[:-20])
    (FOLDER / "form.json").write_text(good.read_text().replace('"runs": 4', '"runs": "four"', 1))
    lacking = dict(made, transfers=[])
    (FOLDER / "lacking.json").write_text(json.dumps(lacking))
    searched = FOLDER / "searched.yaml"
    cases = (
        ("a missing file", searched, FOLDER / "none.json", "net", "profile-file"),
        ("another version", searched, FOLDER / "version.json", "net", "profile-version"),
        ("no JSON", searched, FOLDER / "text.json", "net", "json-text"),
        ("another form", searched, FOLDER / "form.json", "net", "profile-form"),
        ("another model", searched, good, "other", "profile-model"),
        ("other stages", schedule("moved", nodes="h1, h2, h"), good, "net", "profile-stages"),
        ("other micro-batches", schedule("more", count=2), good, "net", "profile-stages"),
        ("other stages of a given order", schedule("moved_given", "1f1b", "h1, h2, h"), good, "net", "profile-stages"),
        ("a split backward pass", schedule("split", "search, backward: split"), good, "net", "profile-block"),
        ("a block that is missing", searched, write("without", made, without=["back.backward"]), "net", "profile-block"),
        ("a transfer that is missing", searched, FOLDER / "lacking.json", "net", "profile-transfer"),
    )
    for name, path, file, model, wanted in cases:
        status, _, err = weft("explain", path, "--profile", file, model=model)
        harness.check(f"refused/{name}", status == 1 and f"{file}" in err and f"[{wanted}]" in err, f"exit {status}: {err[-300:]}")


def main():
    (FOLDER / "net.onnxtxt").write_text(MODEL)
    made = profile("training", schedule("searched"), PASSES, 4)
    if made is None:
        return
    harness.check("training/transfers", {(row["from"], row["to"]) for row in made["transfers"]} >= {
        ("front.forward", "back.forward"), ("back.backward", "front.backward")}, made["transfers"])
    check_search(made)
    check_given_order(made)
    check_refused(made)
    status, _, err = weft("profile", FOLDER / "searched.yaml", "-o", FOLDER / "nowhere" / "p.json")
    harness.check("refused/a result that cannot be written", status in (1, 6), f"exit {status}: {err[-300:]}")
    if harness.FULL:
        status, _, err = weft("profile", FOLDER / "searched.yaml", "-o", "/dev/full", "--quiet")
        harness.check("refused/a full disk", status == 6 and "[profile-unwritable]" in err, f"exit {status}: {err[-300:]}")
        profile("inference", schedule("inference", "gpipe", train=""), {"front", "back"}, 4)
        profile("one_rank", schedule("one_rank", train="", pipeline=""), {"run"}, 1)
        profile("training_of_one_rank", schedule("training_of_one_rank", pipeline=""), {"forward", "backward", "update"}, 1)
        shared = profile("shared_cores", schedule("shared", "1f1b"), PASSES, 4, "--run-args", "--threads 64")
        harness.check("shared cores are noted", shared and shared["threads"] == 64, shared)
        status, _, err = weft("profile", FOLDER / "searched.yaml", "--run-args", "--no-such-flag", "--quiet")
        harness.check("refused/a program that does not run", status == 1 and "[profile-run]" in err, f"exit {status}: {err[-300:]}")


main()
