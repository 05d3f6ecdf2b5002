# test: slow
"""Fixtures whose operators ONNX Runtime has, beside it: the same indices too where elements are equal."""

import pathlib

import numpy as np
import onnx
import onnxruntime

import harness

FIXTURES = pathlib.Path(__file__).resolve().parent.parent / "fixtures"
NAMES = ("choices", "experts", "length_arithmetic")
LENGTH = 5  # of open dimensions, which programs take up to 8
TOLERANCE = {np.float16: 5e-3, np.float32: 1e-4, np.float64: 1e-4}


def drawn(value, generator):
    """Small whole numbers where there are halves and integers: many of them are equal."""
    tensor = value.type.tensor_type
    dtype = onnx.helper.tensor_dtype_to_np_dtype(tensor.elem_type)
    dims = [dim.dim_value or LENGTH for dim in tensor.shape.dim]
    if dtype in (np.float32, np.float64):
        return generator.standard_normal(dims).astype(dtype)
    return generator.integers(0, 9, dims).astype(dtype)


def agrees(found, wanted):
    if found.shape != wanted.shape or found.dtype != wanted.dtype:
        return False
    if wanted.dtype.kind != "f":
        return bool(np.array_equal(found, wanted))
    scale = max(float(np.max(np.abs(wanted), initial=0)), 1e-30)
    return float(np.max(np.abs(found - wanted), initial=0)) <= TOLERANCE[wanted.dtype.type] * scale


def check_fixture(name, folder):
    model = onnx.parser.parse_model((FIXTURES / f"{name}.onnxtxt").read_text())
    program = folder / name
    opens = sorted({dim.dim_param for value in model.graph.input for dim in value.type.tensor_type.shape.dim if dim.dim_param})
    pins = [flag for dim in opens for flag in ("--dim", f"{dim}<=8")]
    status, _, err = harness.weft("compile", FIXTURES / f"{name}.onnxtxt", *pins, "-o", program, "--quiet", timeout=300)
    if not harness.check(f"{name}/compiles", status == 0, f"exit {status}: {err[-400:]}"):
        return
    generator = np.random.default_rng(1)
    inputs = {value.name: drawn(value, generator) for value in model.graph.input}
    arguments = []
    for key, array in inputs.items():
        np.save(folder / f"{key}.npy", array)
        arguments += ["--input", f"{key}={folder / key}.npy"]
    status, _, err = harness.run([program, *arguments, "--output-dir", folder / "out"])
    if not harness.check(f"{name}/runs", status == 0, f"exit {status}: {err[-300:]}"):
        return
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    for output, wanted in zip(model.graph.output, session.run(None, inputs), strict=True):
        found = np.load(folder / "out" / f"{output.name}.npy")
        harness.check(f"{name}/{output.name}", agrees(found, wanted), f"{found.flatten()[:8]}, not {wanted.flatten()[:8]}")


def main():
    for name in NAMES:
        check_fixture(name, harness.scratch(f"fixtures_{name}"))


harness.need_weft()
main()
