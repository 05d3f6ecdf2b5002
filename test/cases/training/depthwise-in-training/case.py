"""A depthwise convolution in a training: its filters are a state, and all its kernels still compute channels side by side."""

import re

import numpy as np
import onnx
from onnx import numpy_helper

import harness

RATE, PAD = 100, 3  # a step that rounding of the filters does not hide


def convolve(x, w):
    """x [images, channels, rows, columns] with one filter of w [channels, 1, 7, 7] a channel."""
    rows, columns = x.shape[2:]
    padded = np.pad(x, ((0, 0), (0, 0), (PAD, PAD), (PAD, PAD)))
    return sum(padded[:, :, i:i + rows, j:j + columns] * w[None, :, 0, i, j, None, None]
               for i in range(w.shape[2]) for j in range(w.shape[3]))


def filters_after_a_step(x, w, wanted):
    """One step of gradient descent on the mean of squared errors, in 64 bits."""
    x, w = x.astype(np.float64), w.astype(np.float64)
    derivative = 2 * (convolve(x, w).transpose(0, 2, 3, 1) - wanted) / wanted.size
    derivative = derivative.transpose(0, 3, 1, 2)
    rows, columns = x.shape[2:]
    padded = np.pad(x, ((0, 0), (0, 0), (PAD, PAD), (PAD, PAD)))
    gradient = np.zeros_like(w)
    for i in range(w.shape[2]):
        for j in range(w.shape[3]):
            gradient[:, 0, i, j] = (padded[:, :, i:i + rows, j:j + columns] * derivative).sum((0, 2, 3))
    return w - RATE * gradient


def run(case):
    model, schedule = case.folder / "model.onnx", case.folder / "schedule.yaml"
    status, text, err = harness.weft("explain", model, "--schedule", schedule)
    strategies = re.findall(r"^  dw(?:_grad)? +(\w+-convolution)", text, re.MULTILINE)
    harness.check(f"{case.name}/strategies", strategies == ["channel-convolution"] * 2, f"{strategies} {err[-300:]}")

    random = np.random.default_rng(0)
    x = random.standard_normal((8, 48, 16, 16)).astype(np.float32)
    wanted = random.standard_normal((8, 16, 16, 48)).astype(np.float32)
    np.save(case.out / "x.npy", x)
    np.save(case.out / "t.npy", wanted)
    program, trained = case.out / "program", case.out / "trained.onnx"
    for command in (
        harness.weft_command("compile", model, "--schedule", schedule, "-o", program),
        [program, "--data", f"x={case.out / 'x.npy'}", "--data", f"t={case.out / 't.npy'}", "--steps", "1",
         "--checkpoint", case.out / "checkpoint"],
        harness.weft_command("export", model, case.out / "checkpoint", "-o", trained),
    ):
        status, out, err = harness.run(command)
        if status != 0:
            return harness.failed(f"{case.name}/step", f"exit {status}: {(err or out)[-400:]}")
    before, after = (numpy_helper.to_array(onnx.load(file).graph.initializer[0]) for file in (model, trained))
    error = harness.relative_error(after.astype(np.float64) - before, filters_after_a_step(x, before, wanted) - before)
    harness.check(f"{case.name}/step", error < 1e-4, f"the step of the filters is off by {error:.1e}")
