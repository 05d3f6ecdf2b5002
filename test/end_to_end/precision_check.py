# test: fast
"""`precision:` and --precision: programs compute what rounded operands give, on one rank and on two, with weights in half
the room, and `weft verify` prints their error against fp32."""

import json
import re

import numpy as np

import harness

FOLDER = harness.scratch("precision")
MODEL_TEXT = """<ir_version: 10, opset_import: ["" : 20]>
net (float[rows,95] x, float[1,24,9,9] image) => (float[rows,64] y, float[1,32,9,9] z)
<float[95,80] w, float[80,64] v, float[32,24,3,3] filters> {
  [first] h = MatMul(x, w)
  r = Relu(h)
  [second] y = MatMul(r, v)
  [conv] z = Conv <pads = [1, 1, 1, 1]> (image, filters)
}
"""
ROWS = 5


def to_bf16(x):
    """Rounded to nearest, ties to even."""
    bits = np.asarray(x, np.float32).view(np.uint32).astype(np.uint64)
    return ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16 << 16).astype(np.uint32).view(np.float32)


def to_fp16(x):
    return np.asarray(x, np.float32).astype(np.float16).astype(np.float32)


def convolve(image, filters):
    padded = np.pad(image[0].astype(np.float64), ((0, 0), (1, 1), (1, 1)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), axis=(1, 2))
    return np.einsum("chwij,fcij->fhw", windows, filters.astype(np.float64))[None]


def expected(arrays, rounded):
    """The model's results if `rounded` is applied to the operands of its products and its convolution."""
    hidden = np.maximum((rounded(arrays["x"]).astype(np.float64) @ rounded(arrays["w"])).astype(np.float32), 0)
    return {"y": rounded(hidden).astype(np.float64) @ rounded(arrays["v"]),
            "z": convolve(rounded(arrays["image"]), rounded(arrays["filters"]))}


def weights_of(program):
    _, out, _ = harness.run([program, "--info"])
    return json.loads(out)["memory_bytes"]["weights"]


def check_program(name, model, wanted, bound, *flags):
    """The bound lies between the error of an element that other sums round to its neighbour, and that of no rounding."""
    program, out = FOLDER / name, FOLDER / f"{name}_out"
    status, _, err = harness.weft("compile", model, "--dim", f"rows={ROWS}", "-o", program, "--quiet", *flags)
    if not harness.check(f"{name}/compiles", status == 0, f"exit {status}: {err[-400:]}"):
        return None
    status, _, err = harness.run([program, "--input", f"x={FOLDER}/x.npy", "--input", f"image={FOLDER}/image.npy",
                                  "--output-dir", out])
    if harness.check(f"{name}/runs", status == 0, f"exit {status}: {err[-300:]}"):
        for output, value in wanted.items():
            error = harness.relative_error(np.load(out / f"{output}.npy"), value)
            harness.check(f"{name}/{output} is what rounded operands give", error <= bound, f"error {error}")
    return program


def check_verify(model):
    """The error against fp32 is printed, and is that of 8 bits of mantissa."""
    status, out, err = harness.weft("verify", model, "--dim", f"rows={ROWS}", "--precision", "bf16", "--quiet")
    numbers = [float(n) for n in re.findall(r"\d\.\d+e-\d+", out)]
    harness.check("verify/exit code", status == 0, f"exit {status}: {err[-300:]}")
    harness.check("verify/error against fp32", len(numbers) > 0 and 1e-4 < max(numbers) < 2e-2, out)


def main():
    harness.need_weft()
    random = np.random.default_rng(7)
    shapes = {"x": (ROWS, 95), "image": (1, 24, 9, 9), "w": (95, 80), "v": (80, 64), "filters": (32, 24, 3, 3)}
    arrays = {name: (random.standard_normal(shape) * 0.3).astype(np.float32) for name, shape in shapes.items()}
    for name in ("x", "image"):
        np.save(FOLDER / f"{name}.npy", arrays[name])
    text = MODEL_TEXT
    for name in ("w", "v", "filters"):
        numbers = ", ".join(repr(float(value)) for value in arrays[name].flatten())
        text = text.replace(f"] {name},", f"] {name} = {{{numbers}}},").replace(f"] {name}>", f"] {name} = {{{numbers}}}>")
    model = FOLDER / "net.onnxtxt"
    model.write_text(text)
    plain = check_program("fp32", model, expected(arrays, lambda x: x), 2e-6)
    lower = check_program("bf16", model, expected(arrays, to_bf16), 5e-4, "--precision", "bf16")
    # On a CPU with AVX512-BF16 the second level multiplies pairs by its instruction.
    check_program("levels", model, expected(arrays, to_bf16), 5e-4, "--precision", "bf16", "--arch", "x86-64-v3,x86-64-v4")
    check_program("fp16", model, expected(arrays, to_fp16), 5e-5, "--precision", "fp16")
    if plain and lower:
        harness.check("bf16/weights of products take half the room", weights_of(lower) < weights_of(plain),
                      f"{weights_of(lower)} against {weights_of(plain)} bytes")
    schedule = FOLDER / "s.yaml"
    schedule.write_text("weft: 1\nmesh: {tp: 2}\nshard: {w: {tp: 1}, v: {tp: 0}}\nprecision: {\"*\": bf16, conv: fp32}\n")
    some = {"y": expected(arrays, to_bf16)["y"], "z": expected(arrays, lambda x: x)["z"]}
    check_program("two_ranks", model, some, 5e-4, "--schedule", schedule)
    check_verify(model)


main()
