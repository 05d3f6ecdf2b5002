"""Micro-batches with separate batch norm statistics equal batches of half the size with averaged gradients, on one rank and
on two that each have a slice of the batch. A loss that is not a sum over micro-batches is refused with the name of the mean that causes it."""

import json

import numpy as np

import harness

RATE, INPUT, CLASSES = 0.1, (3, 16, 16), 5
TRAIN = """weft: 1
dims: {{batch: {batch}}}
train:
  loss: {{cross_entropy: {{scores: scores, labels: labels}}}}
  inputs: {{labels: "int64[{batch}]"}}
  mode: train
  optimizer: {{sgd: {{rate: {rate}}}}}
"""
PARTS = TRAIN.format(batch=8, rate=RATE) + "  accumulate: 2\n  statistics: micro-batch\n"


def build(case, name, text):
    schedule, program = case.out / f"{name}.yaml", case.out / name
    schedule.write_text(text)
    status, _, err = harness.weft("compile", case.folder / "bn.onnx", "--schedule", schedule, "-o", program)
    return program if harness.check(f"{case.name}/{name} compiles", status == 0, err[-400:]) else None


def train(case, program, x, labels, run):
    """The losses and the states after the last step."""
    files = {"image": x, "labels": labels}
    flags = []
    for name, array in files.items():
        np.save(case.out / f"{name}.npy", array)
        flags += ["--data", f"{name}={case.out / name}.npy"]
    log, folder = case.out / f"{run}.jsonl", case.out / run
    status, _, err = harness.run([program, *flags, "--epochs", 1, "--log", log, "--checkpoint", folder])
    if not harness.check(f"{case.name}/{run} runs", status == 0, err[-400:]):
        return None
    step = (folder / "latest").read_text().strip()
    losses = [json.loads(line)["loss"] for line in log.read_text().splitlines()]
    return losses, {file.stem: np.load(file) for file in (folder / step).glob("*.npy")}


def run(case):
    parts = build(case, "parts", PARTS)
    half, still = (build(case, name, TRAIN.format(batch=4, rate=rate)) for name, rate in (("half", RATE), ("still", 0)))
    if parts and half and still:
        check_parts(case, parts, half, still)
    spread = build(case, "spread", "weft: 1\nmesh: {dp: 2}\nshard: {image: {dp: 0}, labels: {dp: 0}}" + PARTS.removeprefix("weft: 1"))
    if parts and spread:
        check_spread(case, parts, spread)
    status, _, err = harness.weft("explain", case.folder / "mixtral.onnx", "--schedule", case.folder / "mixtral.yaml")
    harness.check(f"{case.name}/names the mean", status == 1 and "'node_mean_6'" in err and "is no sum over micro-batches" in err, err[-400:])


def samples(seed):
    rng = np.random.default_rng(seed)
    return rng.standard_normal((8, *INPUT)).astype(np.float32), rng.integers(0, CLASSES, 8)


def check_spread(case, parts, spread):
    """With the batch sliced over two ranks, a micro-batch is a part of each rank's slice."""
    x, labels = samples(2)
    order = [0, 1, 4, 5, 2, 3, 6, 7]
    found, wanted = train(case, spread, x, labels, "sliced"), train(case, parts, x[order], labels[order], "ordered")
    if not (found and wanted):
        return
    harness.check(f"{case.name}/loss of slices", abs(found[0][0] / wanted[0][0] - 1) < 1e-5, (found[0], wanted[0]))
    for name, array in wanted[1].items():
        if not name.startswith("train."):
            error = harness.relative_error(found[1][name], array)
            harness.check(f"{case.name}/{name} of slices", error < 1e-5, error)


def check_parts(case, parts, half, still):
    x, labels = samples(1)
    found = train(case, parts, x, labels, "whole")
    first, second = (train(case, half, x[at:at + 4], labels[at:at + 4], f"half{at}") for at in (0, 4))
    both = train(case, still, x, labels, "both")
    if not (found and first and second and both):
        return
    wanted = (first[0][0] + second[0][0]) / 2
    harness.check(f"{case.name}/loss", abs(found[0][0] / wanted - 1) < 1e-5, (found[0], wanted))
    for name, array in found[1].items():
        is_statistic = "running" in name
        mean = both[1][name] if is_statistic else (first[1][name] + second[1][name]) / 2
        if not name.startswith("train."):
            error = harness.relative_error(array, mean)
            harness.check(f"{case.name}/{name}", error < 1e-5, error)
