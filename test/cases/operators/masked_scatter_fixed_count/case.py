"""A number that data decides and a fixed one: the run finds whether they fit."""

import numpy as np

import harness


def run(case):
    program = case.out / "program"
    status, _, err = harness.weft("compile", case.folder / "model.onnx", "-o", program)
    harness.check(case.name + ": compile", status == 0, err)

    def scatter(mask):
        flags = [f"--input={name}={case.folder / name}.npy" for name in ("e", "i")]
        return harness.run([program, *flags, f"--input=m={mask}", "--output-dir", case.out])

    status, _, err = scatter(case.folder / "m.npy")
    found = status == 0 and np.array_equal(np.load(case.out / "y.npy"), np.load(case.folder / "expected_y.npy"))
    harness.check(case.name, found, err)
    np.save(case.out / "m.npy", np.ones((1, 8), bool))
    status, _, err = scatter(case.out / "m.npy")
    harness.check(case.name + ": too many", status == 1 and "ScatterND" in err and "32" in err and "16" in err, err)
    status, _, err = harness.weft("compile", case.folder / "model.onnx", "--dim", "nz<=16", "-o", program)
    harness.check(case.name + ": bound", status == 0, err)
    status, _, err = scatter(case.folder / "m.npy")
    found = status == 0 and np.array_equal(np.load(case.out / "y.npy"), np.load(case.folder / "expected_y.npy"))
    harness.check(case.name + ": bounded", found, err)
    status, _, err = scatter(case.out / "m.npy")
    harness.check(case.name + ": above the bound", status == 1 and "nz" in err and "32" in err and "16" in err, err)
