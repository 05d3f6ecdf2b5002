"""An evaluation is of all samples, also of those that fill no batch: 12 where a step takes 8."""

import json

import numpy as np

import harness


def evaluated(case, program, x, labels):
    """The figures of an evaluation of these samples, and what the program says."""
    log = case.out / "log.jsonl"
    np.save(case.out / "x.npy", x)
    np.save(case.out / "labels.npy", labels)
    status, _, err = harness.run([program, "--data", f"x={case.folder / 'x.npy'}", "--data", f"labels={case.folder / 'y.npy'}", "--steps", 2, "--log", log,
                                  "--eval-data", f"x={case.out / 'x.npy'}", "--eval-data", f"labels={case.out / 'labels.npy'}"])
    if not harness.check(f"{case.name}/{len(x)} samples", status == 0 and f"evaluation of {len(x)} samples" in err, f"exit {status}: {err[-300:]}"):
        return 0.0
    return json.loads(log.read_text().splitlines()[-1])["eval_loss"]


def run(case):
    program = case.out / "program"
    status, _, err = harness.weft("compile", case.folder / "model.onnx", "--schedule", case.folder / "schedule.yaml", "-o", program)
    if not harness.check(f"{case.name}/compiles", status == 0, err[-300:]):
        return
    x, labels = np.load(case.folder / "x12.npy"), np.load(case.folder / "y12.npy")
    each = [evaluated(case, program, x[i:i + 1], labels[i:i + 1]) for i in range(8, 12)]
    first, rest, all_12, seven = (evaluated(case, program, x[a:b], labels[a:b]) for a, b in ((0, 8), (8, 12), (0, 12), (1, 8)))
    harness.check(f"{case.name}/mean of four", abs(rest - np.mean(each)) < 1e-5, (rest, each))
    harness.check(f"{case.name}/mean of all", abs(all_12 - (first * 8 + rest * 4) / 12) < 1e-5, (all_12, first, rest))
    one = evaluated(case, program, x[:1], labels[:1])
    harness.check(f"{case.name}/mean of seven", abs(seven - (first * 8 - one) / 7) < 1e-5, (seven, first, one))
