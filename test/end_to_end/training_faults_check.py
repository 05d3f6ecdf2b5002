# test: slow
"""Trainings that something goes wrong with: numbers that are not finite, SIGTERM, a full disk, checkpoints of others."""

import json
import os
import re
import resource
import shutil
import signal
import subprocess
import time

import harness
import numpy as np

MODEL = """<ir_version: 10, opset_import: ["" : 20]>
net (float[8, 4] x) => (float[8, 3] scores)
<float[4, WIDTH] w1 = random(1, 0.5), float[WIDTH] b1 = random(2, 0.1), float[WIDTH, 3] w2 = random(3, 0.5)>
{
  [fc1] h1 = MatMul(x, w1)
  [bias1] h2 = Add(h1, b1)
  [act] h = Relu(h2)
  [fc2] scores = MatMul(h, w2)
}
"""
LOSS = '  inputs: {labels: "int64[8]"}\n  loss: {cross_entropy: {scores: scores, labels: labels, ignore: -100}}\n'
ADAMW = "  optimizer: {adamw: {rate: 1e-3}}\n"
TWO = "mesh: {dp: 2}\nshard: {x: {dp: 0}, labels: {dp: 0}, w1.m: {dp: 0}, w1.v: {dp: 0}}\n"
ENDED = 143


def write_data(folder):
    rng = np.random.default_rng(1)
    x = rng.standard_normal((100, 4)).astype(np.float32)
    np.save(folder / "x.npy", x)
    np.save(folder / "labels.npy", (x @ rng.standard_normal((4, 3))).argmax(1))
    np.save(folder / "ignored.npy", np.full(100, -100))
    x[50, 2] = np.nan
    np.save(folder / "nan.npy", x)


def build(folder, name, train, split="", width=16, text=MODEL, weft=harness.weft):
    (folder / f"{name}.onnxtxt").write_text(text.replace("WIDTH", str(width)))
    (folder / f"{name}.yaml").write_text(f"weft: 1\n{split}train:\n{train}")
    status, _, err = weft("compile", folder / f"{name}.onnxtxt", "--schedule", folder / f"{name}.yaml", "-o", folder / name)
    return folder / name if harness.check(f"{name}/compiles", status == 0, err[-300:]) else None


def command(folder, program, *flags, x="x.npy", labels="labels.npy"):
    parts = [program, "--data", f"x={folder / x}", "--data", f"labels={folder / labels}", "--threads", 1, *flags]
    return [str(part) for part in parts]


def train(folder, program, *flags, **files):
    return harness.run(command(folder, program, *flags, **files), timeout=120)


def entries(log):
    """The lines of a log, without the figures that differ from run to run."""
    found = [json.loads(line) for line in log.read_text().splitlines()]
    return [{key: each[key] for key in each if "ms" not in key and "per_s" not in key} for each in found]


def states(run):
    return {file.name: file.read_bytes() for file in (run / (run / "latest").read_text().strip()).glob("*.npy")}


def check_nan(folder, programs):
    for name, program in programs.items():
        log = folder / f"{name}_nan.jsonl"
        status, _, err = train(folder, program, "--steps", 12, "--log", log, x="nan.npy")
        shown = [each["loss"] is None for each in entries(log)]
        harness.check(f"{name}/the log shows a loss that is no number", status == 0 and shown == [False] * 6 + [True] * 6, shown)
        harness.check(f"{name}/and says so once", err.count("--check-nan says what makes it so") == 1, err[-300:])
        for flags in ([], ["--ranks-as-threads"]):
            status, _, err = train(folder, program, "--steps", 12, "--check-nan", *flags, x="nan.npy")
            found = "--check-nan: step 7: 'fc1' (MatMul fc1, Add bias1, Relu act) computes nan" in err and "input 'x'" in err
            harness.check(f"{name}/the first step and node {flags}", status == 1 and found and err.count("error") == 1, err[-300:])
        whole, checked = folder / f"{name}_whole.jsonl", folder / f"{name}_checked.jsonl"
        train(folder, program, "--steps", 20, "--log", whole)
        status, _, err = train(folder, program, "--steps", 20, "--log", checked, "--check-nan")
        harness.check(f"{name}/nothing else changes", status == 0 and entries(whole) == entries(checked), err[-300:])
        status, _, err = train(folder, program, "--steps", 3, "--check-nan", labels="ignored.npy")
        harness.check(f"{name}/a batch without labels", status == 1 and re.search(r"step 1: 'loss\.grad.* computes nan", err), err[-300:])
    status, _, err = harness.run([programs["one"], "--random-inputs", "1", "--check-nan"])
    harness.check("one/--check-nan needs a training", status == 2 and "--check-nan is about" in err, err[-300:])


def check_infinity(folder):
    """Infinities of masks are ignored. Infinities that reach a parameter are reported, the first one by name."""
    masked = MODEL.replace("scores = MatMul(h, w2)", "s = MatMul(h, w2) never = Less(s, s) low = Constant<value_float = -inf>() "
                           "scores = Where(never, low, s)").replace("h1 = MatMul", "far = Where(below, floor, w1) g = Exp(far) h0 = MatMul(x, g) h1 = MatMul")
    masked = masked.replace("b1 = random(2, 0.1)", "b1 = random(2, 0.1), bool[1] below = {1}, float floor = {-inf}").replace("Add(h1, b1)", "Sum(h1, b1, h0)")
    program = build(folder, "masked", LOSS + ADAMW, text=masked)
    if program:
        status, _, err = train(folder, program, "--steps", 10, "--check-nan")
        harness.check("masked/goes on", status == 0, err[-300:])
    steep = LOSS + "  optimizer: {sgd: {rate: 1e38}}\n"
    for name, split in (("steep", ""), ("steep_two", TWO.split(", w1.m")[0] + "}\n")):
        program = build(folder, name, steep.replace("sgd: {rate: 1e38}", "sgd: {rate: 1e38, weight_decay: 1000}"), split)
        if program:
            status, _, err = train(folder, program, "--steps", 3, "--check-nan")
            named = re.search(r"step 1: '.*w\d\.(?:next|update).* computes an infinity.*results are not finite", err)
            harness.check(f"{name}/an update that leaves the numbers", status == 1 and named, err[-300:])


def end(folder, program, signals, *flags, log, group=False):
    """Sends SIGTERM once some steps are done, or the first one hangs; (exit code, messages, seconds until the end)."""
    started = subprocess.Popen(command(folder, program, "--log", log, *flags), stderr=subprocess.PIPE, text=True, start_new_session=True)
    begin = time.monotonic()
    while time.monotonic() < begin + 30 and (not log.exists() or ("--stall" not in flags and log.stat().st_size < 5000)):
        time.sleep(0.01)
    time.sleep(0.3)
    begin = time.monotonic()
    for _ in range(signals):
        (os.killpg if group else os.kill)(started.pid, signal.SIGTERM)
        time.sleep(0.05)
    try:
        err = started.communicate(timeout=60)[1]
    except subprocess.TimeoutExpired:
        started.kill()
        err = "no end: " + started.communicate()[1]
    return started.returncode, err, time.monotonic() - begin


def check_end(folder, name, program, group, more=()):
    """A run resumed from the checkpoint of an ended training equals the uninterrupted run."""
    pieces, whole = folder / f"{name}_pieces", folder / f"{name}_unbroken"
    for run in (pieces, whole):
        shutil.rmtree(run, ignore_errors=True)
    log, other = folder / f"{name}_pieces.jsonl", folder / f"{name}_unbroken.jsonl"
    log.unlink(missing_ok=True)
    more = ["--shuffle", "7", *more]
    status, err, _ = end(folder, program, 1, "--steps", 10**7, "--checkpoint", pieces, *more, log=log, group=group)
    if not harness.check(f"{name}/ends after its step", status == ENDED and "ended by SIGTERM after step" in err, f"exit {status}: {err[-300:]}"):
        return
    done = int((pieces / "latest").read_text().strip().removeprefix("step-"))
    harness.check(f"{name}/the log ends with that step", entries(log)[-1]["step"] == done, entries(log)[-1])
    train(folder, program, "--steps", done + 20, "--checkpoint", pieces, "--resume", pieces, "--log", log, *more)
    train(folder, program, "--steps", done + 20, "--checkpoint", whole, "--log", other, *more)
    harness.check(f"{name}/bits of a run without a break", states(pieces) == states(whole))
    differing = [pair for pair in zip(entries(log), entries(other)) if pair[0] != pair[1]][:2]
    harness.check(f"{name}/and its log", entries(log) == entries(other), (len(entries(log)), len(entries(other)), differing))


def check_kept_log(folder, program):
    """A resumed run that ends before its first step leaves the log's lines. A line without its end is not kept."""
    run, log = folder / "logged_run", folder / "logged.jsonl"
    train(folder, program, "--steps", 4, "--checkpoint", run, "--log", log)
    lines = entries(log)
    status, _, err = train(folder, program, "--steps", 6, "--resume", run, "--log", log, "--timeout", 1, "--stall", "0:fc1")
    harness.check("log/of a run that ends before its first step", status != 0 and entries(log) == lines, f"exit {status}: {err[-300:]}")
    whole = log.read_text()
    log.write_text(whole[:-9])
    status, _, err = train(folder, program, "--steps", 4, "--resume", run, "--log", log)
    harness.check("log/without a part of a line", status == 0 and entries(log) == lines[:-1], f"exit {status}: {err[-300:]}")
    piped = " ".join(map(str, command(folder, program, "--steps", 5, "--resume", run, "--log", "/dev/stdout"))) + " | cat"
    status, out, err = harness.run(["bash", "-c", f"set -o pipefail; {piped}"], timeout=60)
    harness.check("log/into a pipe", status == 0 and '{"step": 5, ' in out, f"exit {status}: {err[-300:]}")


def check_second_signal(folder, programs):
    for name, program in programs.items():
        log, run = folder / f"{name}_stalled.jsonl", folder / f"{name}_stalled"
        log.unlink(missing_ok=True)
        status, err, seconds = end(folder, program, 2, "--steps", 5, "--checkpoint", run, "--stall", "0:fc1", log=log)
        harness.check(f"{name}/a second SIGTERM ends it at once", status == ENDED and seconds < 20 and not (run / "latest").exists(),
                      f"exit {status} after {seconds:.1f} s: {err[-300:]}")


def check_full_disk(folder, programs):
    """A limit on the size of files stands for a disk that is full: the errors come where those of a full disk do."""

    def limit():
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (40_000, 40_000))

    for name, program in programs.items():
        run = folder / f"{name}_full"
        shutil.rmtree(run, ignore_errors=True)
        train(folder, program, "--steps", 3, "--checkpoint", run)
        before = states(run)
        # Ranks that are processes share a file in memory, which the limit would concern, too.
        parts = command(folder, program, "--steps", 6, "--checkpoint", run, "--resume", run, "--ranks-as-threads")
        status, _, err = harness.run(parts, timeout=120, preexec_fn=limit)
        told = "cannot write" in err and "File too large" in err
        harness.check(f"{name}/a checkpoint that does not fit", status == 6 and told, f"exit {status}: {err[-300:]}")
        kept = (run / "latest").read_text() == "step-000003\n" and states(run) == before
        harness.check(f"{name}/the one before it stays", kept and not list(run.glob("step-000006*")))
        status, _, err = harness.run(parts, timeout=120)
        harness.check(f"{name}/and is gone on from", status == 0 and (run / "latest").read_text() == "step-000006\n", err[-300:])


def check_other_checkpoints(folder, program):
    run = folder / "one_run"
    train(folder, program, "--steps", 3, "--checkpoint", run)
    others = {
        "lion": (build(folder, "lion", LOSS + "  optimizer: {lion: {rate: 1e-3}}\n"), "another model or optimizer.* no state for b1.v.npy"),
        "momentum": (build(folder, "momentum", LOSS + "  optimizer: {momentum: {rate: 1e-3}}\n"), "another model or optimizer"),
        "adam": (build(folder, "adam", LOSS + "  optimizer: {adam: {rate: 1e-3}}\n"), 'another optimizer: "adamw", and this program\'s is "adam"'),
        "larger": (build(folder, "larger", (LOSS + ADAMW).replace("int64[8]", "int64[16]"), text=MODEL.replace("float[8,", "float[16,")),
                   "its steps took 8 samples each, and this program's take 16"),
        "wider": (build(folder, "wider", LOSS + ADAMW, width=24), r"w1.*4x16|b1.*16"),
        "renamed": (build(folder, "renamed", LOSS + ADAMW, text=MODEL.replace("w1", "other")), "another model or optimizer.* no other"),
    }
    for name, (other, text) in others.items():
        if other:
            status, _, err = train(folder, other, "--steps", 6, "--resume", run)
            harness.check(f"{name}/does not go on", status == 1 and re.search(text, err) and err.count("error") == 1, f"exit {status}: {err[-300:]}")


def check_evaluations(folder, program):
    run, log = folder / "evaluated_run", folder / "evaluated.jsonl"
    held_out = ["--eval-data", f"x={folder / 'x.npy'}", "--eval-data", f"labels={folder / 'labels.npy'}", "--log", log]
    train(folder, program, "--steps", 4, "--checkpoint", run, *held_out)
    once = entries(log)
    status, _, err = train(folder, program, "--steps", 4, "--resume", run, *held_out)
    harness.check("evaluation/of a run that is done stands in the log once", status == 0 and entries(log) == once and "eval_loss" in once[-1],
                  (entries(log)[-3:], err[-300:]))
    ignored = ["--eval-data", f"x={folder / 'x.npy'}", "--eval-data", f"labels={folder / 'ignored.npy'}", "--log", log]
    status, out, err = train(folder, program, "--steps", 4, "--json", *ignored)
    shown = entries(log)[-1]["eval_loss"] is None and json.loads(out)["eval_loss"] is None and "without a label that counts" in err
    harness.check("evaluation/without a label that counts is null", status == 0 and shown, f"exit {status}: {err[-300:]}")


def check_input_file(folder):
    """All ranks read the file of an input before the first step; one that is late still finds that they read the same."""
    model, program = folder / "scaled.onnxtxt", folder / "scaled"
    model.write_text('<ir_version: 10, opset_import: ["" : 20]> m (float[8,16] x, float c) => (float[8,16] y) '
                     "<float[16,16] u = random(1, 0.2)> { up = MatMul(x, u) y = Mul(up, c) }")
    schedule = folder / "scaled.yaml"
    schedule.write_text("weft: 1\nmesh: {dp: 2}\nshard: {x: {dp: 0}}\ntrain:\n  loss: {mean_squared_error: {predictions: y, targets: t}}\n"
                        '  inputs: {t: "float[8, 16]"}\n  optimizer: {sgd: {rate: 0.1}}\n')
    status, _, err = harness.weft("compile", model, "--schedule", schedule, "-o", program, "--quiet")
    if not harness.check("input file/compiles", status == 0, err[-300:]):
        return
    draw, flags = np.random.default_rng(1), []
    for name, flag, array in (("x", "--data", draw.random((24, 16))), ("t", "--data", draw.random((24, 16))), ("c", "--input", np.float32(0.5))):
        np.save(folder / f"scaled_{name}.npy", np.asarray(array, np.float32))
        flags += [flag, f"{name}={folder / f'scaled_{name}.npy'}"]
    runs = [harness.run([program, *flags, "--steps", 2, *more]) for more in ((), ("--ranks-as-threads",)) for _ in range(12)]
    wrong = [err for status, _, err in runs if status != 0]
    harness.check("input file/is the same on all ranks", not wrong, f"{len(wrong)} of {len(runs)}: {wrong[:1]}")


def main():
    harness.need_weft()
    folder = harness.scratch("training_faults")
    write_data(folder)
    programs = {"one": build(folder, "one", LOSS + ADAMW), "two": build(folder, "two", LOSS + ADAMW + "  accumulate: 2\n", TWO)}
    if None in programs.values():
        return
    check_nan(folder, {"one": programs["one"]})
    check_infinity(folder)
    for name, program in programs.items():
        check_end(folder, name, program, group=False)
    held_out = ["--eval-data", f"x={folder / 'x.npy'}", "--eval-data", f"labels={folder / 'labels.npy'}", "--eval-every", "1"]
    check_end(folder, "two_evaluated", programs["two"], group=True, more=held_out)
    check_second_signal(folder, programs)
    wide = {"wide": build(folder, "wide", LOSS + ADAMW, width=4000), "wide_two": build(folder, "wide_two", LOSS + ADAMW, TWO, width=4000)}
    check_full_disk(folder, {name: program for name, program in wide.items() if program})
    check_other_checkpoints(folder, programs["one"])
    check_evaluations(folder, programs["one"])
    check_input_file(folder)


if __name__ == "__main__":
    main()
