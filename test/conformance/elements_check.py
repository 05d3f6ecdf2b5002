# test: fast
"""Operators on elements that ONNX Runtime does not take: integers and bools that are computed with real numbers or compared,
tensors without elements, half spectra of open length. One node a model."""

import sys

import numpy as np
from onnx import helper

import harness
from one_node import Rows, Weight, model_of, results_of, write_case
from verify_many import report_complete, verify_many

random = np.random.default_rng(7)


def type_of(array):
    return helper.np_dtype_to_tensor_dtype(array.dtype)


def shrunk(dtype):
    """Numbers lose their fraction after the subtraction."""
    low = -9 if np.issubdtype(dtype, np.signedinteger) else 0
    x, lambd, bias = random.integers(low, 10, (3, 5)).astype(dtype), 2.5, 1.5
    real = x.astype(np.float64)
    wanted = np.where(real < -lambd, real + bias, np.where(real > lambd, real - bias, 0))
    return "Shrink", [x], {"lambd": lambd, "bias": bias}, [np.trunc(wanted).astype(dtype)]


def sampled(dtype, mode):
    """ONNX Runtime's result for floats, truncated and clamped to the range of the type."""
    info = np.iinfo(dtype)
    x, grid = random.integers(max(info.min, -900), min(info.max, 900), (1, 2, 4, 5)).astype(dtype), \
        random.uniform(-1.2, 1.2, (1, 3, 3, 2)).astype(np.float32)
    attrs = {"mode": mode, "padding_mode": "border"}
    operands = [x.astype(np.float32), grid]
    real = results_of(model_of("GridSample", "", operands, (1,), attrs, [("", 20)]), operands)[0]
    return "GridSample", [x, grid], attrs, [np.clip(np.trunc(real), info.min, info.max).astype(dtype)]


def different(x, attrs):
    """Values, first places, inverse and counts, by NumPy."""
    axis = attrs.get("axis")
    values, first, inverse, counts = np.unique(x, return_index=True, return_inverse=True, return_counts=True, axis=axis)
    return "Unique", [x], attrs, [values, first, inverse.reshape(-1), counts]


def resized(x, sizes, attrs):
    return "Resize", [x, None, None, Weight(np.array(sizes))], attrs, [np.zeros(sizes, np.float32)]


def inverted(rows):
    """The real signal of a half spectrum along a dimension of open length, by NumPy."""
    half = random.standard_normal((rows, 3, 2)).astype(np.float32)
    wanted = np.fft.irfft(half[..., 0] + 1j * half[..., 1], 2 * (rows - 1), 0)
    return "DFT", [Rows(half), None, Weight(np.array(0))], {"inverse": 1, "onesided": 1}, [wanted[..., None].astype(np.float32)]


def one_node_cases():
    for rows in 2, 3, 8:
        yield f"DFT.inverse_of_{rows}_rows", *inverted(rows)
    for dtype in np.int8, np.uint8, np.int32, np.int64, np.uint64:
        yield f"Shrink.{np.dtype(dtype).name}", *shrunk(dtype)
    for dtype in np.uint8, np.int16, np.int32:
        yield f"GridSample.{np.dtype(dtype).name}", *sampled(dtype, "linear")
    yield "GridSample.cubic", *sampled(np.uint8, "cubic")
    bools = random.integers(0, 2, (4, 3)).astype(bool)
    yield "Unique.bool", *different(bools, {})
    yield "Unique.bool_rows", *different(bools, {"axis": 0})
    image = np.zeros((1, 2, 4, 5), np.float32)
    yield "Resize.to_nothing", *resized(image, [1, 2, 0, 7], {"mode": "nearest"})
    yield "Resize.to_nothing_linear", *resized(image, [1, 2, 3, 0], {"mode": "linear"})
    yield "Resize.nothing", *resized(image[:0], [0, 2, 3, 7], {"mode": "linear"})
    yield "Resize.nothing_to_nothing", *resized(image[:, :, :0], [1, 2, 0, 7], {"mode": "cubic"})


def main(parts):
    folder, cases = harness.scratch("elements"), []
    for name, op, operands, attrs, wanted in one_node_cases():
        if not parts or any(part in name for part in parts):
            types = [type_of(array) for array in wanted]
            cases.append(write_case(folder, name, op, "", operands, types, attrs, wanted, [("", 20)]))
    report_complete(verify_many(cases, folder))


if __name__ == "__main__":
    harness.need_weft()
    main(sys.argv[1:])
