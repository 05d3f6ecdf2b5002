# test: slow
"""`precision: fp16` of a training: the scale of the loss, steps that are skipped, checkpoints, and the same over ranks (in
`full`, over more kinds of slices)."""

import json

import harness
import numpy as np
from training_runs_check import MODEL, SPLITS, TRAIN, build, losses, states, train, write_data

FP16 = "precision: fp16\n"
STEPS, BROKEN_OFF = 40, 3
# The derivative by the scores is up to 65536 / 8; with such weights that by what they are made of is no number of 16 bits.
LARGE = MODEL.replace("random(3, 0.5)", "random(3, 200.0)")
LARGE_TRAIN = TRAIN.replace("adamw: {rate: 1e-2}", "adamw: {rate: 1e-3}") + "  average: {decay: 0.9}\n"
RANKS = ("data_parallel", "sliced_states", "sliced_parameters", "tensor_parallel")


def figures(log, name):
    return [json.loads(line)[name] for line in log.read_text().splitlines()]


def check_plain(folder):
    """Nothing overflows: losses near those of 32 bits, which a derivative rounded to 0 would keep apart."""
    whole, half = build(folder, "f32"), build(folder, "f16", FP16)
    if not (whole and half):
        return
    for program in (whole, half):
        train(folder, program, "--steps", STEPS, "--shuffle", "7", "--log", folder / f"{program.name}.jsonl")
    error = np.abs(losses(folder / "f16.jsonl") / losses(folder / "f32.jsonl") - 1).max()
    harness.check("plain/losses near those of 32 bits", 1e-7 < error < 2e-3, error)
    harness.check("plain/nothing is skipped", figures(folder / "f16.jsonl", "skipped") == [0] * STEPS)
    harness.check("plain/the scale stays", set(figures(folder / "f16.jsonl", "loss_scale")) == {65536})
    lines = (folder / "f32.jsonl").read_text()
    harness.check("plain/32 bits need no scale", "loss_scale" not in lines and "skipped" not in lines)


def check_growth(folder, program):
    """The scale doubles after 2000 good steps."""
    status, _, err = train(folder, program, "--steps", 2002, "--log", folder / "long.jsonl")
    if harness.check("growth/runs", status == 0, f"exit {status}: {err[-300:]}"):
        scales = figures(folder / "long.jsonl", "loss_scale")
        harness.check("growth/after 2000 good steps", scales == [65536] * 2000 + [131072] * 2, scales[1998:])


def check_skipped(folder, program):
    """Skipped steps leave parameters, what the optimizer keeps, averages and the count of steps alone."""
    run = folder / "skipping"
    status, _, err = train(folder, program, "--steps", STEPS, "--shuffle", "7", "--log", folder / "skipping.jsonl",
                           "--checkpoint", run, "--every", 1)
    if not harness.check("skip/runs", status == 0, f"exit {status}: {err[-300:]}"):
        return None
    skipped, scales = figures(folder / "skipping.jsonl", "skipped"), figures(folder / "skipping.jsonl", "loss_scale")
    first_good = skipped.index(0)
    if not harness.check("skip/until the scale is small enough", 1 <= first_good < STEPS // 2, skipped):
        return None
    halves = all(after == before * (0.5 if lost else 1) for before, after, lost in zip(scales, scales[1:], skipped))
    harness.check("skip/halves the scale", halves and scales[0] == 65536, scales)
    norms = figures(folder / "skipping.jsonl", "grad_norm")
    harness.check("skip/where a gradient is not finite", all((norm is None) == bool(lost) for norm, lost in zip(norms, skipped)))
    for step in range(2, STEPS + 1):
        before, after = states(run / f"step-{step - 1:06}"), states(run / f"step-{step:06}")
        changed = {name for name in after if after[name] != before[name]}
        own = {"train.loss_scale.npy", "train.good_steps.npy"}
        if skipped[step - 1]:
            harness.check(f"skip/step {step} changes nothing", changed <= own and "train.loss_scale.npy" in changed, changed)
        elif step <= first_good + 3:
            harness.check(f"skip/step {step} counts", {"w1.npy", "w1.m.npy", "w1.average.npy", "train.step.npy"} <= changed, changed)
    count = int(np.load(run / f"step-{STEPS:06}" / "train.step.npy"))
    harness.check("skip/the optimizer counts good steps", count == skipped.count(0), (count, skipped))
    return losses(folder / "skipping.jsonl"), skipped


def check_resume(folder, program):
    """Broken off among the steps that are skipped."""
    place, last = folder / "pieces", f"step-{STEPS:06}"
    train(folder, program, "--steps", BROKEN_OFF, "--shuffle", "7", "--checkpoint", place)
    train(folder, program, "--steps", STEPS, "--shuffle", "7", "--checkpoint", place, "--resume", place)
    harness.check("resume/bits of a run without a break", states(place / last) == states(folder / "skipping" / last))


def check_ranks(folder, name, wanted, more=""):
    program = build(folder, f"{name}_f16", FP16 + SPLITS[name], LARGE, LARGE_TRAIN + more)
    if not program:
        return
    log = folder / f"{name}_f16.jsonl"
    status, _, err = train(folder, program, "--steps", STEPS, "--shuffle", "7", "--log", log)
    if harness.check(f"{name}/runs", status == 0, f"exit {status}: {err[-300:]}"):
        harness.check(f"{name}/skips the same steps", figures(log, "skipped") == wanted[1], figures(log, "skipped"))
        error = np.abs(losses(log) / wanted[0] - 1).max()
        harness.check(f"{name}/losses of one rank", error < 2e-3, error)


if __name__ == "__main__":
    harness.need_weft()
    FOLDER = harness.scratch("training_scaling")
    write_data(FOLDER)
    check_plain(FOLDER)
    check_growth(FOLDER, FOLDER / "f16")
    PROGRAM = build(FOLDER, "large", FP16, LARGE, LARGE_TRAIN)
    WANTED = check_skipped(FOLDER, PROGRAM) if PROGRAM else None
    if WANTED is not None:
        check_resume(FOLDER, PROGRAM)
        for NAME in RANKS if harness.FULL else ("sliced_parameters",):
            check_ranks(FOLDER, NAME, WANTED)
        check_ranks(FOLDER, "data_parallel", WANTED, "  accumulate: 2\n")
