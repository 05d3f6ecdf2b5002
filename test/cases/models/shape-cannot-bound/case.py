"""--shape bounds a dim without a name, and one with a name, of which both inputs have the length then."""

import numpy as np

import harness

MODEL = """<ir_version: 8, opset_import: ["" : 17]>
m (float[?,3] x, float[rows,3] y, float[rows,3] z) => (float[?,3] s, float[rows,3] t) { s = Neg(x) t = Add(y, z) }
"""


def run(case):
    model = case.out / "m.onnxtxt"
    model.write_text(MODEL)
    program = case.out / "program"
    status, _, err = harness.weft("compile", model, "--shape", "x=<=64x3", "--shape", "y=<=4x3", "-o", program)
    harness.check(case.name + ": compile", status == 0, err)
    inputs = {"x": np.ones((5, 3), np.float32), "y": np.ones((2, 3), np.float32), "z": np.ones((2, 3), np.float32)}
    flags = []
    for name, array in inputs.items():
        np.save(case.out / f"{name}.npy", array)
        flags += ["--input", f"{name}={case.out / name}.npy"]
    status, _, err = harness.run([program, *flags, "--output-dir", case.out])
    found = status == 0 and np.array_equal(np.load(case.out / "s.npy"), -inputs["x"]) and np.array_equal(np.load(case.out / "t.npy"), 2 * inputs["y"])
    harness.check(case.name, found, err)
    np.save(case.out / "z.npy", np.ones((3, 3), np.float32))
    status, _, err = harness.run([program, *flags, "--output-dir", case.out])
    harness.check(case.name + ": other rows", status == 1 and "rows" not in err or "dimension 0" in err, err)
