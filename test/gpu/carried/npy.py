"""Reads .npy files and compares them by the metric of the project, with the standard library alone."""

import array
import ast
import math
import pathlib
import struct

# The largest max|a-b| / max|b| of outputs of each type against the host's; others must be equal.
TOLERANCE = {"f4": 1e-4, "f8": 1e-4, "f2": 5e-3}
CODES = {"f4": "f", "f8": "d", "i1": "b", "i2": "h", "i4": "i", "i8": "q", "u1": "B", "u2": "H", "u4": "I", "u8": "Q", "b1": "B"}


def read(path):
    """(type such as f4, shape, the elements as a flat sequence)."""
    data = pathlib.Path(path).read_bytes()
    if data[:6] != b"\x93NUMPY":
        raise ValueError(f"{path} is not an .npy file")
    size, start = (struct.unpack_from("<H", data, 8)[0], 10) if data[6] == 1 else (struct.unpack_from("<I", data, 8)[0], 12)
    header = ast.literal_eval(data[start:start + size].decode())
    kind, body = header["descr"][1:], data[start + size:]
    if header["fortran_order"] or header["descr"][0] == ">":
        raise ValueError(f"{path} is not in C order and little-endian")
    count = math.prod(header["shape"])
    if kind == "f2":
        return kind, header["shape"], struct.unpack(f"<{count}e", body)
    elements = array.array(CODES[kind])
    elements.frombytes(body)
    if len(elements) != count:
        raise ValueError(f"{path} holds {len(elements)} elements, its shape {count}")
    return kind, header["shape"], elements


def same(a, b):
    return a == b or (a != a and b != b)


def distance(got, wanted):
    """max|a-b| / max|b|; infinite where one is NaN or infinite and the other is not."""
    largest = worst = 0.0
    for a, b in zip(got, wanted):
        if math.isfinite(b):
            largest = max(largest, abs(b))
        if same(a, b):
            continue
        if not (math.isfinite(a) and math.isfinite(b)):
            return math.inf
        worst = max(worst, abs(a - b))
    return worst / largest if largest > 0 else (0.0 if worst == 0 else math.inf)


def compare(got_path, wanted_path):
    """(is close enough, how they compare)."""
    if not pathlib.Path(got_path).exists():
        return False, "was not written"
    kind, shape, got = read(got_path)
    wanted_kind, wanted_shape, wanted = read(wanted_path)
    if (kind, shape) != (wanted_kind, wanted_shape):
        return False, f"is {kind}{list(shape)}, {wanted_kind}{list(wanted_shape)} is expected"
    if kind not in TOLERANCE:
        different = sum(a != b for a, b in zip(got, wanted))
        return different == 0, f"{different} of {len(wanted)} elements differ"
    far = distance(got, wanted)
    return far <= TOLERANCE[kind], f"differs by {far:.2g}"
