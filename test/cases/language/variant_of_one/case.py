"""A bound of one, alone and as one of several, is a length like any other."""

import numpy as np

import harness


def run(case):
    for bounds in ("1", "1,512"):
        program = case.out / f"program_{bounds.replace(',', '_')}"
        status, _, err = harness.weft("compile", case.folder / "model.onnx", "--dim", f"n<={bounds}", "-o", program)
        harness.check(f"{case.name}: n<={bounds}", status == 0, err)
        for n in (1, 7) if bounds != "1" else (1,):
            x = np.arange(n, dtype=np.float32)
            np.save(case.out / "x.npy", x)
            status, _, err = harness.run([program, "--input", f"x={case.out / 'x.npy'}", "--output-dir", case.out])
            harness.check(f"{case.name}: {n} of {bounds}", status == 0 and np.load(case.out / "y.npy").size == n, err)
