# test: fast
"""bf16 arrays in both forms that .npy files have: their bits as uint16, and two bytes without a type, as ml_dtypes saves them."""

import numpy as np

import harness

FOLDER = harness.scratch("bfloat16")
TEXT = """<ir_version: 10, opset_import: ["" : 20]>
g (bfloat16[2,3] x) => (bfloat16[2,3] y, float[2,3] z) {
  y = Neg(x)
  z = Cast<to = 1>(x)
}
"""
VALUES = np.array([[1, -2, 0.5], [3, 256, -0.125]], np.float32)
BITS = (VALUES.view(np.uint32) >> 16).astype(np.uint16)


def check_run(program, form, array):
    np.save(FOLDER / f"{form}.npy", array)
    for flags, dtype in (([], "uint16"), (["--ml-dtypes"], "|V2")):
        out = FOLDER / f"{form}_{len(flags)}"
        status, _, err = harness.run([program, "--input", f"x={FOLDER / form}.npy", "--output-dir", out, *flags])
        name = f"{form} to {dtype}"
        if not harness.check(f"{name}/run", status == 0, f"exit {status}: {err[-300:]}"):
            continue
        y, z = np.load(out / "y.npy"), np.load(out / "z.npy")
        harness.check(f"{name}/type", y.dtype == np.dtype(dtype), y.dtype)
        harness.check(f"{name}/values", (y.view(np.uint16) == BITS ^ 0x8000).all() and (z == VALUES).all(), (y, z))


def main():
    model = FOLDER / "m.onnxtxt"
    model.write_text(TEXT)
    program = FOLDER / "program"
    status, out, err = harness.weft("compile", model, "-o", program)
    if not harness.check("compile", status == 0, f"exit {status}: {(err or out)[-400:]}"):
        return
    check_run(program, "bits", BITS)
    check_run(program, "untyped", BITS.view("V2"))
    # numpy.save writes the type '<V2' for an array of ml_dtypes.bfloat16.
    saved = (FOLDER / "untyped.npy").read_bytes().replace(b"'|V2'", b"'<V2'")
    (FOLDER / "ml_dtypes.npy").write_bytes(saved)
    data = FOLDER / "data"
    data.mkdir(exist_ok=True)
    (data / "input_0.npy").write_bytes(saved)
    np.save(data / "output_0.npy", (BITS ^ 0x8000).view("V2"))
    np.save(data / "output_1.npy", VALUES)
    status, out, err = harness.weft("verify", model, "--data", data)
    harness.check("verify", status == 0, f"exit {status}: {(err or out)[-400:]}")
    status, _, err = harness.run([program, "--input", f"x={FOLDER / 'ml_dtypes'}.npy"])
    harness.check("ml_dtypes", status == 0, f"exit {status}: {err[-300:]}")


harness.need_weft()
main()
