# test: slow
"""Transformers as PyTorch's exporters write them (exports/make.py), with `seq` open to a bound: one executable gives
what ONNX Runtime gives at each length."""

import pathlib

import numpy as np
import onnxruntime

import harness

EXPORTS = pathlib.Path(__file__).resolve().parent / "exports"
BOUND = 16
LENGTHS = (2, 5, 7, 13, BOUND)
WORDS = 50
TOLERANCE = 1e-4


def inputs_of(length):
    """A padded request too: the last two of the longer ones are masked."""
    generator = np.random.default_rng(length)
    mask = np.ones((1, length), np.int64)
    if length > 5:
        mask[:, -2:] = 0
    return {"input_ids": generator.integers(3, WORDS, (1, length)), "attention_mask": mask}


def error_of(found, wanted):
    return float(np.max(np.abs(found - wanted)) / np.max(np.abs(wanted)))


def check_length(name, program, session, folder, length):
    inputs = inputs_of(length)
    arguments = []
    for key, value in inputs.items():
        np.save(folder / f"{key}.npy", value)
        arguments += ["--input", f"{key}={folder / key}.npy"]
    status, _, err = harness.run([program, *arguments, "--output-dir", folder / "out"])
    if not harness.check(f"{name}/runs at {length}", status == 0, f"exit {status}: {err[-300:]}"):
        return
    found, wanted = np.load(folder / "out" / "out.npy"), session.run(None, inputs)[0]
    if not harness.check(f"{name}/shape at {length}", found.shape == wanted.shape, f"{found.shape}, not {wanted.shape}"):
        return
    error = error_of(found, wanted)
    harness.check(f"{name}/result at {length}", error <= TOLERANCE, f"relative error {error:.1e}")


def check_export(model, folder):
    program = folder / model.stem
    status, _, err = harness.weft("compile", model, "--dim", f"seq<={BOUND}", "-o", program, "--quiet", timeout=300)
    if not harness.check(f"{model.stem}/compiles", status == 0, f"exit {status}: {err[-400:]}"):
        return
    session = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
    for length in LENGTHS:
        check_length(model.stem, program, session, folder, length)
    too_long = [f"--input={key}={folder / key}.npy" for key in inputs_of(BOUND)]
    for key, value in inputs_of(BOUND + 1).items():
        np.save(folder / f"{key}.npy", value)
    status, _, err = harness.run([program, *too_long])
    harness.check(f"{model.stem}/too long", status == 1 and "input_ids" in err, f"exit {status}: {err[-200:]}")


if __name__ == "__main__":
    harness.need_weft()
    for each in sorted(EXPORTS.glob("*.onnx")):
        check_export(each, harness.scratch(f"exports/{each.stem}"))
