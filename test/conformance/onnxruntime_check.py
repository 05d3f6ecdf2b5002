# test: slow
"""Fixtures whose operators ONNX Runtime has, beside it: the same indices too where elements are equal."""

import pathlib

import numpy as np
import onnx
import onnxruntime

import harness

FIXTURES = pathlib.Path(__file__).resolve().parent.parent / "fixtures"
# With what they are compiled, and the sizes of their open dims.
FIXTURES_RUN = {"choices": ([], {}), "experts": ([], {}), "length_arithmetic": (["--dim", "seq<=8"], {"seq": 5}),
                "transposed_convolutions": ([], {})}
# In full: those whose shapes data decides.
COUNTED = {"selections": ([], {}), "overlapping_boxes": (["--dim", "n<=7"], {"n": 6})}
TOLERANCE = {np.float16: 5e-3, np.float32: 1e-4, np.float64: 1e-4}


def drawn(value, generator, sizes):
    """Small whole numbers where there are halves and integers: many of them are equal."""
    tensor = value.type.tensor_type
    dtype = onnx.helper.tensor_dtype_to_np_dtype(tensor.elem_type)
    dims = [dim.dim_value or sizes[dim.dim_param] for dim in tensor.shape.dim]
    if dtype == bool or value.name == "k":
        return generator.integers(1, 3, dims).astype(dtype)
    if dtype in (np.float32, np.float64):
        return generator.standard_normal(dims).astype(dtype)
    return generator.integers(0, 9, dims).astype(dtype)


def agrees(found, wanted):
    if found.shape != wanted.shape or found.dtype != wanted.dtype:
        return False
    if wanted.dtype.kind != "f" or np.array_equal(found, wanted):  # infinities too
        return bool(np.array_equal(found, wanted))
    scale = max(float(np.max(np.abs(wanted), initial=0)), 1e-30)
    return float(np.max(np.abs(found - wanted), initial=0)) <= TOLERANCE[wanted.dtype.type] * scale


def requests_of(name, inputs):
    """The requests for the program; for selections also such that nothing is selected, and everything."""
    if name != "selections":
        return {"": inputs}
    size = np.abs(inputs["x"]) + 1
    return {"some ": inputs, "none ": {**inputs, "x": -size, "keep": inputs["keep"] * 0},
            "all ": {**inputs, "x": size, "keep": inputs["keep"] * 0 + 1}}


def check_request(label, program, session, inputs, folder):
    arguments = []
    for key, array in inputs.items():
        np.save(folder / f"{key}.npy", array)
        arguments += ["--input", f"{key}={folder / key}.npy"]
    status, _, err = harness.run([program, *arguments, "--output-dir", folder / "out"])
    if not harness.check(f"{label}runs", status == 0, f"exit {status}: {err[-300:]}"):
        return
    for output, wanted in zip(session.get_outputs(), session.run(None, inputs), strict=True):
        found = np.load(folder / "out" / f"{output.name}.npy")
        harness.check(f"{label}{output.name}", agrees(found, wanted), f"{found.flatten()[:8]}, not {wanted.flatten()[:8]}")


def check_fixture(name, folder, flags, sizes):
    model = onnx.parser.parse_model((FIXTURES / f"{name}.onnxtxt").read_text())
    program = folder / name
    status, _, err = harness.weft("compile", FIXTURES / f"{name}.onnxtxt", "-o", program, "--quiet", *flags, timeout=300)
    if not harness.check(f"{name}/compiles", status == 0, f"exit {status}: {err[-400:]}"):
        return
    generator = np.random.default_rng(1)
    inputs = {value.name: drawn(value, generator, sizes) for value in model.graph.input}
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    for case, request in requests_of(name, inputs).items():
        check_request(f"{name}/{case}", program, session, request, folder)


def main():
    for name, (flags, sizes) in (FIXTURES_RUN | (COUNTED if harness.FULL else {})).items():
        check_fixture(name, harness.scratch(f"fixtures_{name}"), flags, sizes)


harness.need_weft()
main()
