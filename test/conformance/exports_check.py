# test: slow
"""Transformers as PyTorch's exporters write them (exports/make.py), with `batch` and `seq` open to bounds: one executable
gives what ONNX Runtime gives at each batch and length."""

import pathlib

import numpy as np
import onnxruntime

import harness

EXPORTS = pathlib.Path(__file__).resolve().parent / "exports"
BATCH, BOUND = 3, 16
LENGTHS = ((1, 2), (2, 5), (BATCH, 7), (2, 13), (BATCH, BOUND))
WORDS = 50
TOLERANCE = 1e-4


def inputs_of(batch, length):
    """Padded requests too: of the longer ones the last two of each row, and more of the last row, are masked."""
    generator = np.random.default_rng(length)
    mask = np.ones((batch, length), np.int64)
    if length > 5:
        mask[:, -2:] = 0
        mask[-1, -4:] = 0
    return {"input_ids": generator.integers(3, WORDS, (batch, length)), "attention_mask": mask}


def check_length(name, program, session, folder, batch, length):
    inputs = inputs_of(batch, length)
    arguments = []
    for key, value in inputs.items():
        np.save(folder / f"{key}.npy", value)
        arguments += ["--input", f"{key}={folder / key}.npy"]
    status, _, err = harness.run([program, *arguments, "--output-dir", folder / "out"])
    if not harness.check(f"{name}/runs at {batch} x {length}", status == 0, f"exit {status}: {err[-300:]}"):
        return
    found, wanted = np.load(folder / "out" / "out.npy"), session.run(None, inputs)[0]
    if not harness.check(f"{name}/shape at {batch} x {length}", found.shape == wanted.shape, f"{found.shape}, not {wanted.shape}"):
        return
    error = harness.relative_error(found, wanted)
    harness.check(f"{name}/result at {batch} x {length}", error <= TOLERANCE, f"relative error {error:.1e}")


def check_export(model, folder):
    program = folder / model.stem
    status, _, err = harness.weft("compile", model, "--dim", f"batch<={BATCH}", "--dim", f"seq<={BOUND}", "-o", program, "--quiet", timeout=300)
    if not harness.check(f"{model.stem}/compiles", status == 0, f"exit {status}: {err[-400:]}"):
        return
    session = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
    for batch, length in LENGTHS:
        check_length(model.stem, program, session, folder, batch, length)
    for what, batch, length in (("too long", 1, BOUND + 1), ("too many", BATCH + 1, 2)):
        inputs = inputs_of(batch, length)
        for key, value in inputs.items():
            np.save(folder / f"{key}.npy", value)
        status, _, err = harness.run([program, *(f"--input={key}={folder / key}.npy" for key in inputs)])
        harness.check(f"{model.stem}/{what}", status == 1 and "input_ids" in err, f"exit {status}: {err[-200:]}")


if __name__ == "__main__":
    harness.need_weft()
    for number, each in enumerate(sorted(EXPORTS.glob("*.onnx"))):
        # Of both exporters' models of one network one by default, in turns.
        if not harness.FULL and number % 2 != number // 2 % 2:
            continue
        check_export(each, harness.scratch(f"exports/{each.stem}"))
