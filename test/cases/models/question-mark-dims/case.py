"""Two dims called "?" are no one dim: the hints name --shape, which pins or bounds them."""

import numpy as np

import harness


def run(case):
    model = case.folder / "model.onnx"
    status, _, err = harness.weft("compile", model, "-o", case.out / "open")
    harness.check(case.name + ": hint", status == 1 and "--shape x=Nx3xNxN" in err and "--dim" not in err, err)
    _, text, _ = harness.weft("inspect", model)
    harness.check(case.name + ": inspect", "dim 2 of 'x' (--shape), dim 3 of 'x' (--shape)" in text, text)
    program = case.out / "program"
    status, _, err = harness.weft("compile", model, "--shape", "x=1x3x<=8x<=9", "-o", program)
    harness.check(case.name + ": bounds", status == 0, err)
    for dims in [(1, 3, 8, 9), (1, 3, 2, 5)]:
        x = np.linspace(-1, 1, np.prod(dims), dtype=np.float32).reshape(dims)
        np.save(case.out / "x.npy", x)
        status, _, err = harness.run([program, "--input", f"x={case.out / 'x.npy'}", "--output-dir", case.out])
        harness.check(f"{case.name}: {dims}", status == 0 and np.array_equal(np.load(case.out / "y.npy"), np.maximum(x, 0)), err)
