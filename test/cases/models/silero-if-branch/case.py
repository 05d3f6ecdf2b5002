"""A branch that cannot run with these lengths is refused when a request takes it, not when it is compiled."""

import numpy as np

import harness


def run(case):
    program = case.out / "program"
    status, _, err = harness.weft("compile", case.folder / "model.onnx", "--shape", "input=1x576", "-o", program)
    harness.check(case.name + ": compile", status == 0 and "branch-refused" in err, err)
    flags = ["--input", f"input={case.folder / 'input.npy'}", "--output-dir", case.out]
    status, _, err = harness.run([program, "--input", f"sr={case.folder / 'sr.npy'}", *flags])
    harness.check(case.name + ": run", status == 0, err)
    found, wanted = np.load(case.out / "output.npy"), np.load(case.folder / "expected_output.npy")
    harness.check(case.name, found.shape == wanted.shape and np.allclose(found, wanted, rtol=1e-4, atol=1e-4), str(found))
    np.save(case.out / "sr.npy", np.array(8000))
    status, _, err = harness.run([program, "--input", f"sr={case.out / 'sr.npy'}", *flags])
    harness.check(case.name + ": other branch", status == 1 and "fc_w8" in err and "inner dimensions" in err, err)
