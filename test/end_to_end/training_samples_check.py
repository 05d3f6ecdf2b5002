# test: slow
"""The scripts of samples/training: their models train, and digits, trained, exported and run, are right. By default their
pictures are drawn here; in `full` they are those of scikit-learn, and more than 98 of 100 must be right."""

import dataclasses
import json
import sys

import harness
import numpy as np
from exported_anew import interpreter

SAMPLES = harness.ROOT / "samples" / "training"
SMALL = ["--layers", "1", "--width", "32", "--heads", "2", "--context", "32"]


@dataclasses.dataclass
class Sample:
    script: str
    flags: list
    data: str  # the input, NAME=FILE
    steps: int
    same: list = dataclasses.field(default_factory=list)  # further schedules, which have the losses of the script's own


SAMPLE_TABLE = [
    Sample("bert", SMALL, "tokens=tokens.npy", 60),
    Sample("experts", SMALL, "tokens=tokens.npy", 40, ["experts_ep2"]),
    Sample("diffusion", ["--channels", "16"], "images=train_images.npy", 60),
]


def script(name, *arguments, python=sys.executable):
    status, out, err = harness.run([python, SAMPLES / f"{name}.py", *arguments])
    if status != 0:
        raise RuntimeError(f"{name}.py: exit {status}: {err[-300:]}")
    return out


def draw_pictures(folder):
    """A pattern for each class, with noise."""
    draw = np.random.default_rng(1)
    patterns = draw.random((10, 1, 8, 8))
    for name, count in (("train", 640), ("test", 160)):
        labels = draw.integers(0, 10, count)
        np.save(folder / f"{name}_images.npy", (patterns[labels] + 0.3 * draw.standard_normal((count, 1, 8, 8))).astype(np.float32))
        np.save(folder / f"{name}_labels.npy", labels)


def trained(folder, name, model, schedule, *flags):
    """The losses of a training, or nothing after a FAIL line."""
    program = folder / schedule
    status, _, err = harness.weft("compile", model, "--schedule", SAMPLES / f"{schedule}.yaml", "-o", program, "--quiet")
    if status == 0:
        status, _, err = harness.run([program, *flags, "--shuffle", "--log", folder / f"{schedule}.jsonl"])
    if not harness.check(f"{name}/trains", status == 0, f"exit {status}: {err[-300:]}"):
        return None
    lines = map(json.loads, (folder / f"{schedule}.jsonl").read_text().splitlines())
    return np.array([line["loss"] for line in lines if "loss" in line])


def check_sample(folder, sample):
    model = folder / f"{sample.script}.onnx"
    script(sample.script, model, *sample.flags)
    name, file = sample.data.split("=")
    flags = ["--data", f"{name}={folder / file}", "--steps", sample.steps]
    losses = trained(folder, sample.script, model, sample.script, *flags)
    if losses is None:
        return
    first, last = losses[:5].mean(), losses[-5:].mean()
    harness.measured(f"{sample.script}/loss falls", last < 0.85 * first, f"from {first:.3f} to {last:.3f}")
    for schedule in sample.same:
        others = trained(folder, schedule, model, schedule, *flags)
        if others is not None:
            error = abs(others / losses - 1)[:10].max()
            harness.check(f"{schedule}/losses of one rank", error < 2e-5, error)


def check_digits(folder, epochs, least):
    """Runs the README's commands for the sample."""
    model, run, forward = folder / "digits.onnx", folder / "run", folder / "forward"
    script("digits", "model", model)
    data = [flag for part, name in (("train", "--data"), ("test", "--eval-data")) for kind in ("images", "labels")
            for flag in (name, f"{kind}={folder}/{part}_{kind}.npy")]
    if trained(folder, "digits", model, "digits", *data, "--epochs", epochs, "--checkpoint", run) is None:
        return
    count = len(np.load(folder / "test_labels.npy"))
    written = folder / "trained.onnx"
    steps = {"exports": harness.weft_command("export", model, run, "-o", written),
             "compiles for inference": harness.weft_command("compile", written, "--dim", f"batch={count}", "-o", forward, "--quiet"),
             "runs": [forward, "--input", f"images={folder}/test_images.npy", "--output-dir", folder]}
    for name, command in steps.items():
        status, _, err = harness.run(command)
        if not harness.check(f"digits/{name}", status == 0, f"exit {status}: {err[-300:]}"):
            return
    share = float(script("digits", "accuracy", folder / "scores.npy", folder / "test_labels.npy"))
    harness.measured("digits/test pictures that are right", share > least, f"{100 * share:.2f} % of {count}")
    found = json.loads((folder / "digits.jsonl").read_text().splitlines()[-1])
    most = (count - found["eval_samples"] + 0.5) / count  # samples that fill no batch are left out
    harness.check("digits/an evaluation says the same", abs(found["eval_accuracy"] - share) < most, (found, share))


def main():
    folder = harness.scratch("training_samples")
    draw_pictures(folder)
    script("bytes", folder / "tokens.npy", harness.ROOT / "README.md")
    for sample in SAMPLE_TABLE if harness.FULL else SAMPLE_TABLE[1:]:
        check_sample(folder, sample)
    python, reason = interpreter(SAMPLES / "requirements.txt", "training_samples") if harness.FULL else (None, "")
    if python:
        script("digits", "data", folder, python=python)
    elif reason:
        harness.skipped("digits of scikit-learn", reason)
    check_digits(folder, 20 if python else 6, 0.98)


if __name__ == "__main__":
    harness.need_weft()
    main()
