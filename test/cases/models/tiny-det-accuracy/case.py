"""The beginning of a text detector: the means of 32 channels of 160 x 160 elements that lie innermost, against float64."""

import numpy as np

import harness

DIMS = ["DynamicDimension.0=1", "DynamicDimension.1=640", "DynamicDimension.2=640"]
MOST = 1e-6  # one accumulator of 25,600 elements is off by 1e-5


def run(case):
    program, page = case.out / "program", case.out / "x.npy"
    dims = [word for dim in DIMS for word in ("--dim", dim)]
    status, _, err = harness.weft("compile", case.folder / "c_mean.onnx", *dims, "-o", program)
    if status != 0:
        return harness.failed(case.name, f"compile: exit {status}: {err[-400:]}")
    drawn = np.random.default_rng(1).random((1, 3, 640, 640)) > 0.1
    np.save(page, (drawn * 2.0 - 1).astype(np.float32))
    status, _, err = harness.run([program, "--input", f"x={page}", "--output-dir", case.out])
    if status != 0:
        return harness.failed(case.name, f"run: exit {status}: {err[-400:]}")
    found, wanted = np.load(case.out / "ReduceMean.1.npy").ravel(), np.load(case.folder / "mean.npy")
    error = harness.relative_error(found, wanted)
    harness.measured(case.name, error <= MOST, f"{error:.1e}")
