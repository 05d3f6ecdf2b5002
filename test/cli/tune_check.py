# test: full, alone
"""`weft tune`: over a slow link it finds a schedule that hides communication, it tries the strategies of kernels, and what
it writes can be compiled."""

import os
import time

import harness

FOLDER = harness.scratch("tune")
SAMPLE = harness.ROOT / "samples" / "mlp"
LAYER = """<ir_version: 10, opset_import: ["" : 20]>
layer (float[1024,1024] x, float[1024,255] r) => (float[1024,255] y)
<float[1024,255] weight = random(1, 0.05), float[255] b = random(2, 1.0)>
{ [down] d = MatMul(x, weight)
  [bias] c = Add(d, b)
  [residual] y = Add(c, r) }
"""
POINTS = """<ir_version: 10, opset_import: ["" : 20]>
m (float[1,64,56,56] x) => (float[1,256,56,56] y) <float[256,64,1,1] w = random(1, 0.05)> { [points] y = Conv(x, w) }
"""
# The last product has as many rows as the state: no program of its kernel alone can be timed.
CACHE = """<ir_version: 10, opset_import: ["" : 20]>
m (float[1,1024] x, float[p,2] m) => (float[t,64] z, float[t,2] n)
<float[1024,2] w = random(1, 0.5), float[2,64] v = random(2, 0.5)>
{ [mm] y = MatMul(x, w)
  [n] n = Concat<axis = 0>(m, y)
  [rows] z = MatMul(n, v) }
"""
SCHEDULE = """weft: 1  # two ranks
mesh: {tp: 2}
shard: {x: {tp: 1}, weight: {tp: 0}}
"""


def expect(name, result, wanted, *texts):
    status, out, err = result
    missing = [text for text in texts if text not in out + err]
    harness.check(name, status == wanted and not missing, f"exit {status}, not {wanted}; lacks {missing}: {(err or out)[-300:]}")
    return status == wanted


def tune(*arguments, model=SAMPLE / "mlp.onnxtxt", schedule=SAMPLE / "tp2.yaml", output=FOLDER / "none.yaml"):
    return harness.weft("tune", model, "--schedule", schedule, "-o", output, *arguments)


def check_slow_link():
    """The link takes about as long as the product: overlap has much to gain, and nothing else comes near. Columns
    cannot be cut, which keeps the candidates few."""
    (FOLDER / "layer.onnxtxt").write_text(LAYER)
    # The mark before the text, and the line that ends it, must not stay where they were.
    (FOLDER / "plain.yaml").write_text("\ufeff" + SCHEDULE + "...\n", encoding="utf-8")
    best = FOLDER / "best.yaml"
    result = tune("--chunks", "4", "--pairs", "10", "--run-args", "--link 150MB/s --threads 1", "--collective", "down.sum",
                  model=FOLDER / "layer.onnxtxt", schedule=FOLDER / "plain.yaml", output=best)
    if not expect("slow link", result, 0, "as it is", "split 0, reorder past 2, fuse", "overlap 4 dim 0", "chosen"):
        return
    text = best.read_text()
    harness.check("slow link/finds overlap", "  - overlap: {" in text, text)
    harness.check("slow link/keeps the schedule and adds the table", SCHEDULE in text and "# What was tried" in text, text)
    expect("slow link/right", harness.weft("verify", FOLDER / "layer.onnxtxt", "--schedule", best), 0, "ok")
    programs = [FOLDER / "first", FOLDER / "second"]
    for program in programs:
        expect(f"slow link/replay {program.name}",
               harness.weft("compile", FOLDER / "layer.onnxtxt", "--schedule", best, "-o", program), 0)
    harness.check("slow link/equal bytes", programs[0].read_bytes() == programs[1].read_bytes(), "the executables differ")


def check_kernels():
    """Whichever strategy is the fastest here is what the schedule says, and what the program is compiled with."""
    (FOLDER / "points.onnxtxt").write_text(POINTS)
    (FOLDER / "one.yaml").write_text("weft: 1\n")
    best = FOLDER / "points.yaml"
    result = tune("--pairs", "20", "--run-args", "--threads 1", model=FOLDER / "points.onnxtxt",
                  schedule=FOLDER / "one.yaml", output=best)
    if not expect("kernels", result, 0, "as it is", "point-convolution", "unfolded-convolution", "chosen"):
        return
    row = next(line for line in best.read_text().splitlines() if line.endswith("chosen"))
    chosen = next(name for name in ("as it is", "point-convolution", "unfolded-convolution") if name in row)
    pinned = f'"points": {{strategy: {chosen}' in best.read_text()
    harness.check("kernels/pins what is chosen", pinned == (chosen != "as it is"), best.read_text())
    expect("kernels/right", harness.weft("verify", FOLDER / "points.onnxtxt", "--schedule", best), 0, "ok")


def check_growing_cache():
    """A run is no longer than the cache has room for, and one that has no room at all is an error."""
    (FOLDER / "cache.onnxtxt").write_text(CACHE)
    (FOLDER / "four.yaml").write_text('weft: 1\ndims: {p: "<=4"}\nstate: {m: n}\n')
    best = FOLDER / "cache.yaml"
    best.unlink(missing_ok=True)
    files = {"model": FOLDER / "cache.onnxtxt", "schedule": FOLDER / "four.yaml", "output": best}
    if expect("cache", tune("--pairs", "10", "--kernel", "rows", **files), 0, "as it is", "chosen"):
        text = best.read_text()
        harness.check("cache/times all", "nan" not in text and "exit code" not in text, text)
        best.unlink()
    # The untimed run leaves a full cache, from which the first timed run begins.
    program, state = FOLDER / "cache_program", FOLDER / "cache_state"
    harness.weft("compile", files["model"], "--schedule", files["schedule"], "-o", program)
    expect("cache/three rows", harness.run([program, "--random-inputs", "1", "--iterations", "3", "--save-state", state]), 0)
    result = tune("--kernel", "rows", "--run-args", f"--load-state {state} --save-state {state}", **files)
    expect("cache/full", result, 1, "[tune-run]", "state 'm' ('n') would have 5 elements, more than its bound of 4")
    harness.check("cache/full writes nothing", not best.exists(), "a schedule was written")


def check_budget():
    """Programs of a collective: what is not tried in time is left out."""
    best = FOLDER / "budget.yaml"
    began = time.monotonic()
    result = tune("--budget", "10s", "--all", output=best)
    took = time.monotonic() - began
    if expect("budget", result, 0, "proj.sum: ", "about ", "--budget ends it", "the best so far is written"):
        harness.check("budget/in time", took < 15, f"{took:.1f} s")
        expect("budget/compiles", harness.weft("explain", SAMPLE / "mlp.onnxtxt", "--schedule", best), 0)


def check_mistakes():
    expect("no schedule", harness.weft("tune", SAMPLE / "mlp.onnxtxt", "-o", FOLDER / "x.yaml"), 2, "--schedule")
    expect("a chunk count", tune("--chunks", "1"), 2, "--chunks")
    expect("no such collective", tune("--collective", "proj.summ"), 1, "did you mean 'proj.sum'", "[tune-no-collective]")
    expect("a folder for output", tune(output=FOLDER), 1, "[output-path]")
    alone = FOLDER / "alone.yaml"
    alone.write_text("weft: 1\nmesh: {tp: 1}\n")
    expect("one rank", tune("--collective", "proj.sum", schedule=alone), 1, "[tune-no-collective]")
    expect("no such kernel", tune("--kernel", "poj"), 1, "did you mean 'proj'", "[tune-no-kernel]")
    for name, lacking in (("compiler", {"PATH": "/nowhere"}), ("launcher's variables", {"RANK": "0"})):
        result = harness.weft("tune", SAMPLE / "mlp.onnxtxt", "--schedule", SAMPLE / "tp2.yaml", "-o", FOLDER / "none.yaml",
                              "--chunks", "2", env=os.environ | lacking)
        expect(f"no {name}", result, 6, "[tune-run]")
    pinned = FOLDER / "pinned.yaml"
    pinned.write_text("weft: 1\nkernels:\n  fc: {strategy: strided-product}\n")
    expect("a pinned kernel", tune("--kernel", "fc", schedule=pinned), 1, "kernel 'fc' to strided-product", "[tune-pinned-kernel]")
    (FOLDER / "relu.onnxtxt").write_text('<ir_version: 10, opset_import: ["" : 20]>\n'
                                         "m (float[8] x) => (float[8] y) { y = Relu(x) }\n")
    expect("nothing to choose", tune("--run-args", "--threads 1", model=FOLDER / "relu.onnxtxt", schedule=alone), 1, "[tune-nothing]")
    flow = FOLDER / "flow.yaml"
    flow.write_text("{weft: 1, mesh: {tp: 2}, shard: {fc_weight: {tp: 1}, proj_weight: {tp: 0}}}\n")
    expect("flow style", tune(schedule=flow), 1, "[schedule-style]", "flow.yaml:1:2")
    empty = FOLDER / "empty.yaml"
    empty.write_text("weft: 1\nmesh: {tp: 2}\nshard: {fc_weight: {tp: 1}, proj_weight: {tp: 0}}\ntransform: []\n")
    expect("an empty list in brackets", tune(schedule=empty), 1, "[schedule-style]", "empty.yaml:4:1")
    expect("no such file", tune(schedule=FOLDER / "absent.yaml"), 1, "absent.yaml")
    expect("a schedule that does not run", tune("--run-args", "--no-such-flag"), 1, "[tune-run]", "--no-such-flag")


harness.need_weft()
check_mistakes()
check_budget()
check_growing_cache()
check_kernels()
check_slow_link()
