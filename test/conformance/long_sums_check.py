# test: slow
"""Sums of very many elements keep their digits. The error of each kind of sum against float64 is at most four times the
error of a pairwise sum in fp32, or of rounding the result. On the host and over the emulated cuda target, in fp32 and
in 16 bits. In `full` for 10^2 to 10^7 elements."""

import dataclasses
import sys

import ml_dtypes
import numpy as np
import onnx
from onnx import helper

import harness

sys.path[:0] = [str(harness.ROOT / "test" / "emulation")]
from emulated import Emulated  # noqa: E402

SIZES = [10**power for power in range(2, 8)] if harness.FULL else [100, 30000]
ALLOWED = 4
TYPES = {"fp32": np.dtype(np.float32), "fp16": np.dtype(np.float16), "bf16": np.dtype(ml_dtypes.bfloat16)}
ROUNDING = {"fp32": 2.0**-24, "fp16": 2.0**-11, "bf16": 2.0**-8}
# Functions before and after a sum add this to its error, in roundings: exponentials, logarithms, roots and quotients.
FUNCTIONS = dict.fromkeys(("softmax", "column_softmax", "log_softmax", "cross_entropy", "wide_cross_entropy", "log_sum_exp",
                           "layer_norm", "rms_norm", "lp_norm", "instance_norm", "batch_norm", "attention"), 4)
@dataclasses.dataclass
class Sum:
    """A node, its operands, and the terms of each element of its result, along the last axis."""

    name: str
    node: tuple  # the operator and its attributes
    inputs: list
    terms: np.ndarray
    scale: object = 1.0
    dtype: str = "fp32"
    weights: tuple = ()  # the operands that are constants
    compute: object = None  # where there are several sums: the result, from a type and a function that adds up

    def is_constant(self, k):
        return k in self.weights or (self.inputs[k].dtype.kind in "iu" and self.inputs[k].size < 8)


def pairwise(terms):
    """Sums along the last axis in fp32, as a tree."""
    terms = terms.astype(np.float32)
    while terms.shape[-1] > 1:
        if terms.shape[-1] % 2:
            terms = np.concatenate([terms, np.zeros_like(terms[..., :1])], axis=-1)
        terms = terms[..., ::2] + terms[..., 1::2]
    return terms[..., 0]


def exact_sum(terms):
    return terms.sum(-1)


def axes(*numbers):
    return np.array(numbers, np.int64)


def factors(n):
    """Two numbers whose product is n."""
    a = max(d for d in range(1, int(n**0.5) + 1) if n % d == 0)
    return a, n // a


def reductions(n, random, dtype="fp32"):
    """Reductions of rows, columns, whole tensors and inner dimensions, with `n` elements each."""
    many = max(2, min(24, 2_000_000 // n))
    outer, inner = factors(n)
    drawn = lambda *shape: random.random(shape, dtype=np.float32).astype(TYPES[dtype])  # noqa: E731
    wide = lambda x: x.astype(np.float64)  # noqa: E731
    rows, columns, whole, middle = drawn(many, n), drawn(n, many), drawn(n), drawn(outer, many, inner)
    mean = lambda name, x, over, terms: Sum(  # noqa: E731
        name, ("ReduceMean", {"keepdims": 0}), [x, axes(*over)], wide(terms), 1 / n, dtype)
    return [
        mean("rows", rows, [1], rows),
        mean("columns", columns, [0], columns.T),
        mean("whole", whole, [0], whole[None]),
        mean("middle", middle, [0, 2], middle.transpose(1, 0, 2).reshape(many, n)),
        mean("images", middle[:, :, :, None], [0, 2, 3], middle.transpose(1, 0, 2).reshape(many, n)),
    ]


def functions(n, random):
    """Sums of functions of elements, running sums, sums by indices, windows and products, with `n` elements each."""
    many = max(2, min(24, 2_000_000 // n))
    drawn = lambda *shape: random.random(shape, dtype=np.float32)  # noqa: E731
    rows, columns = drawn(many, n), drawn(n, 5)
    exp = np.exp(rows.astype(np.float64))
    log_shares = np.log(np.exp(columns.astype(np.float64)).sum(1)) - columns[:, 1]
    outer, inner = factors(n)
    few = 12 if n <= 10_000 else 3 if n <= 1_000_000 else 1  # float64 terms of more would take gigabytes
    image, left, right = drawn(1, 3, outer, inner), drawn(few, n), drawn(n, few)
    at = random.integers(0, 2, n)
    updates = drawn(n, few)
    found = [
        Sum("squares", ("ReduceSumSquare", {"keepdims": 0}), [rows, axes(1)], rows.astype(np.float64) ** 2),
        Sum("column_squares", ("ReduceSumSquare", {"keepdims": 0}), [columns, axes(0)], columns.T.astype(np.float64) ** 2),
        Sum("norm", ("ReduceL2", {"keepdims": 0}), [rows, axes(1)], rows.astype(np.float64) ** 2, np.sqrt),
        Sum("magnitudes", ("ReduceL1", {"keepdims": 0}), [-rows, axes(1)], rows.astype(np.float64)),
        Sum("log_sum", ("ReduceLogSum", {"keepdims": 0}), [rows, axes(1)], rows.astype(np.float64), np.log),
        Sum("log_sum_exp", ("ReduceLogSumExp", {"keepdims": 0}), [rows, axes(1)], exp, np.log),
        Sum("column_softmax", ("Softmax", {"axis": 0}), [columns], np.exp(columns.T.astype(np.float64)),
            lambda sums: np.exp(columns.astype(np.float64)) / sums),
        Sum("log_softmax", ("LogSoftmax", {"axis": 1}), [rows], exp, lambda sums: rows - np.log(sums)[..., None]),
        Sum("likelihoods", ("NegativeLogLikelihoodLoss", {"reduction": "sum"}), [-columns, np.full(n, 1)],
            columns[:, 1].astype(np.float64)[None]),
        Sum("wide_cross_entropy", ("SoftmaxCrossEntropyLoss", {"reduction": "none"}), [rows, np.full(many, 1)], exp,
            lambda sums: np.log(sums) - rows[:, 1]),
        Sum("softmax", ("Softmax", {"axis": 1}), [rows], exp, lambda sums: exp / sums[..., None]),
        Sum("cross_entropy", ("SoftmaxCrossEntropyLoss", {}), [columns, np.full(n, 1)], log_shares[None], 1 / n),
        Sum("row_scan", ("CumSum", {}), [rows, np.array(1)], rows.astype(np.float64), "scan"),
        Sum("column_scan", ("CumSum", {}), [columns, np.array(0)], columns.T.astype(np.float64), "column scan"),
        Sum("scatter", ("ScatterElements", {"axis": 0, "reduction": "add"}),
            [np.zeros((2, few), np.float32), np.repeat(at[:, None], few, 1), updates],
            np.stack([np.where(at == row, updates[:, column], 0).astype(np.float64) for row in range(2) for column in range(few)])),
        Sum("product", ("MatMul", {}), [left, right], np.einsum("mk,kn->mnk", left, right, dtype=np.float64).reshape(few * few, n)),
    ]
    if n <= 100_000:
        window = {"kernel_shape": [outer, inner]}
        found.append(Sum("pool", ("AveragePool", window), [image], image.reshape(3, n).astype(np.float64), 1 / n))
    return found


def scattered(n, random, dtype="fp32"):
    """Updates of two of many rows, which one index or two choose."""
    at, updates = random.integers(70, 72, n), random.random((n, 2), dtype=np.float32).astype(TYPES[dtype])
    if dtype == "fp16":
        updates *= np.float16(min(1, 10_000 / n))  # the largest number is 65504

    def into(rows):
        def compute(to, total):
            sums = np.zeros((rows, 2), to)
            for row in (70, 71):
                sums[row] = total(np.where(at == row, updates.T, 0).astype(to))
            return sums

        return compute

    of_one, of_two = np.repeat(at[:, None], 2, 1), np.stack([at // 11, at % 11], -1)
    make = lambda name, operator, attrs, dims, indices: Sum(  # noqa: E731
        name, (operator, attrs), [np.zeros((*dims, 2), TYPES[dtype]), indices, updates], None, dtype=dtype, compute=into(np.prod(dims)))
    return [
        make("scatter_rows", "ScatterElements", {"axis": 0, "reduction": "add"}, (100,), of_one),
        make("scatter_tuples", "ScatterND", {"reduction": "add"}, (13, 11), of_two),
    ]


def norms(n, random):
    """Norms over rows and images of `n` elements, and attention over so many keys: of each several sums."""
    many, (outer, inner) = 2, factors(n)
    rows, scale, bias = random.random((many, n), dtype=np.float32), np.ones(n, np.float32), np.zeros(n, np.float32)
    image = rows.reshape(1, many, outer, inner)
    ones, zeros = np.ones(many, np.float32), np.zeros(many, np.float32)
    query, keys, values = (random.random((k, 4), dtype=np.float32) for k in (1, n, n))

    def normalised(dtype, total):
        centred = rows.astype(dtype) - (total(rows.astype(dtype)) / dtype(n))[:, None]
        return centred / np.sqrt(total(centred * centred) / dtype(n) + dtype(1e-5))[:, None]

    def of_squares(dtype, total):
        return rows.astype(dtype) / np.sqrt(total(rows.astype(dtype) ** 2) / dtype(n) + dtype(1e-5))[:, None]

    def of_length_one(dtype, total):
        return rows.astype(dtype) / np.sqrt(total(rows.astype(dtype) ** 2))[:, None]

    def attended(dtype, total):
        scores = np.exp((keys.astype(dtype) * query.astype(dtype)).sum(-1) / dtype(2))
        return total(values.astype(dtype).T * scores) / total(scores)

    heads = [x.reshape(1, 1, -1, 4) for x in (query, keys, values)]
    return [
        Sum("layer_norm", ("LayerNormalization", {"axis": 1}), [rows, scale, bias], None, compute=normalised),
        Sum("rms_norm", ("RMSNormalization", {"axis": 1}), [rows, scale], None, compute=of_squares),
        Sum("lp_norm", ("LpNormalization", {"axis": 1, "p": 2}), [rows], None, compute=of_length_one),
        Sum("instance_norm", ("InstanceNormalization", {}), [image, ones, zeros], None, compute=normalised),
        Sum("batch_norm", ("BatchNormalization", {"training_mode": 1}), [image, ones, zeros, zeros, ones], None, compute=normalised),
        Sum("attention", ("Attention", {}), heads, None, compute=attended),
    ]


def windows_of(x, window, stride=1):
    """The elements of each window of an image [channels][y][x], by output."""
    view = np.lib.stride_tricks.sliding_window_view(x, window, axis=(1, 2))[:, ::stride, ::stride]
    return view.transpose(1, 2, 0, 3, 4).reshape(-1, x.shape[0] * window[0] * window[1])


def convolution(name, x, filters, stride=1, weights=(1,), groups=1):
    """A convolution of one image. Terms are those of each output of each filter."""
    window, attrs = filters.shape[2:], {"strides": [stride, stride], "group": groups}
    each = filters.shape[0] // groups
    parts = [np.einsum("ok,fk->fok", windows_of(x[0, g * filters.shape[1]:(g + 1) * filters.shape[1]], window, stride),
                       filters[g * each:(g + 1) * each].reshape(each, -1), dtype=np.float64) for g in range(groups)]
    terms = np.concatenate(parts).reshape(-1, parts[0].shape[-1])
    return Sum(name, ("Conv", attrs), [x, filters], terms, weights=weights)


def convolutions(n, random):
    """Sums over channels and windows, as large as the image where they are the derivative of filters."""
    drawn = lambda *shape: random.random(shape, dtype=np.float32)  # noqa: E731
    channels = max(1, n // 9)
    found = [convolution("channels", drawn(1, channels, 3, 5), drawn(2, channels, 3, 3), stride=2)]
    if n <= 1_000_000:
        image, filters = drawn(1, n, 2, 2), drawn(n, 2, 2, 2)
        terms = np.einsum("cyx,cfij->fyixjc", image[0], filters, dtype=np.float64).reshape(-1, n)
        found.append(Sum("transposed", ("ConvTranspose", {"strides": [2, 2]}), [image, filters], terms, weights=(1,)))
    outer, inner = factors(n)
    found.append(convolution("filters", drawn(1, 1, outer + 1, inner + 1), drawn(8 if n <= 100_000 else 2, 1, outer, inner), weights=()))
    if n <= 100_000:
        tiles, (high, wide) = -(-channels // 16) * 16, factors(-(-n // 8))
        found += [
            convolution("winograd", drawn(1, tiles, 6, 6), drawn(16, tiles, 3, 3)),
            convolution("depthwise", drawn(1, 24, outer + 1, inner + 1), drawn(24, 1, outer, inner), groups=24),
            convolution("few_groups", drawn(1, 4, outer + 1, inner + 1), drawn(4, 1, outer, inner), groups=4),
            convolution("grouped", drawn(1, 24, high + 1, wide + 1), drawn(24, 8, high, wide), groups=3),
        ]
    return found


def block_products(n, random, size):
    """Products with a weight of 4 bits in blocks, for few and for many rows."""
    k, columns = -(-n // size) * size, 16 if n <= 100_000 else 2
    codes = random.integers(0, 256, (columns, k // size, size // 2), dtype=np.uint8)
    scales = random.random((columns, k // size), dtype=np.float32)
    numbers = np.stack([codes & 15, codes >> 4], -1).reshape(columns, k // size, size) * scales[..., None].astype(np.float64)
    attrs = {"K": k, "N": columns, "bits": 4, "block_size": size, "domain": "com.microsoft"}
    found = []
    for name, rows in ((f"blocks_{size}", 1), (f"blocks_{size}_of_rows", 5)):
        x, zeros = random.random((rows, k), dtype=np.float32), np.zeros((columns, -(-k // size // 2)), np.uint8)
        terms = np.einsum("mk,nk->mnk", x, numbers.reshape(columns, k), dtype=np.float64).reshape(rows * columns, k)
        found.append(Sum(name, ("MatMulNBits", attrs), [x, codes, scales, zeros], terms, weights=(1, 2, 3)))
    return found if n <= 1_000_000 else found[:1]


def model_of(sums):
    nodes, inputs, outputs = [], [], []
    for i, each in enumerate(sums):
        names = [f"{each.name}{i}_x{k}" for k in range(len(each.inputs))]
        for k, (name, array) in enumerate(zip(names, each.inputs)):
            if each.is_constant(k):
                nodes.append(helper.make_node("Constant", [], [name], value=onnx.numpy_helper.from_array(array)))
            else:
                inputs.append(helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape))
        nodes.append(helper.make_node(each.node[0], names, [f"{each.name}{i}"], **each.node[1]))
        outputs.append(helper.make_tensor_value_info(f"{each.name}{i}", helper.np_dtype_to_tensor_dtype(TYPES[each.dtype]), None))
    graph = helper.make_graph(nodes, "sums", inputs, outputs)
    return helper.make_model(graph, ir_version=10, opset_imports=[helper.make_opsetid("", 23), helper.make_opsetid("com.microsoft", 1)])


def feed(sums, folder):
    flags = []
    for i, each in enumerate(sums):
        for k, array in enumerate(each.inputs):
            if each.is_constant(k):
                continue
            file = folder / f"{each.name}{i}_x{k}.npy"
            np.save(file, array.view(np.uint16) if array.dtype == TYPES["bf16"] else array)
            flags += ["--input", f"{file.stem}={file}"]
    return flags


def compare(name, each, found):
    """One result: the largest error of an element, as a part of it, beside that of a pairwise sum."""
    if isinstance(each.scale, str):
        exact = np.cumsum(each.terms, axis=-1)
        found = found.T if each.scale == "column scan" else found
        # A running sum is as good as the pairwise sum of all of it, element by element.
        sums = pairwise(each.terms)
        by_pairs = float(np.max(np.abs(sums - exact[..., -1]) / exact[..., -1]))
    elif each.compute:
        # Elements are differences: an error is a part of the largest of them.
        exact, sums = each.compute(np.float64, exact_sum), each.compute(np.float32, pairwise)
        by_pairs = float(np.max(np.abs(sums - exact)) / np.max(np.abs(exact)))
    else:
        scaled = each.scale if callable(each.scale) else lambda s: s * each.scale
        exact, sums = scaled(each.terms.sum(-1)), scaled(pairwise(each.terms).astype(np.float64))
        by_pairs = float(np.max(np.abs((sums - exact) / exact)))
    part_of = np.max(np.abs(exact)) if each.compute else np.abs(exact)
    error = float(np.max(np.abs(found.reshape(exact.shape).astype(np.float64) - exact) / part_of))
    most = ALLOWED * max(by_pairs, ROUNDING[each.dtype]) + FUNCTIONS.get(each.name, 0) * ROUNDING[each.dtype]
    harness.measured(name, error <= most, f"{error:.1e}, a pairwise sum {by_pairs:.1e}")


def check_sums(name, sums, folder, compile_, environment=None):
    model = folder / "model.onnx"
    onnx.save(model_of(sums), model)
    status, _, err = compile_("compile", model, "-o", folder / "program", timeout=1800)
    if status != 0:
        return harness.failed(name, f"compile: exit {status}: {err[-400:]}")
    status, _, err = harness.run([folder / "program", *feed(sums, folder), "--output-dir", folder, "--timeout", 600], timeout=1800, env=environment)
    if status != 0:
        return harness.failed(name, f"run: exit {status}: {err[-400:]}")
    for i, each in enumerate(sums):
        found = np.load(folder / f"{each.name}{i}.npy")
        compare(f"{name}/{each.dtype}/{each.name}", each, found.view(TYPES[each.dtype]) if each.dtype == "bf16" else found)


def programs(n, random):
    """The sums of `n` elements, by program. Arrays of many elements are drawn for one small program at a time."""
    wide = [reductions, functions, scattered, norms, convolutions, lambda *of: block_products(*of, 32), lambda *of: block_products(*of, 128)]
    narrow = [lambda *of, dtype=dtype, draw=draw: draw(*of, dtype) for dtype in ("fp16", "bf16") for draw in (reductions, scattered)]
    if n < 1_000_000:
        yield [each for draw in wide + narrow for each in draw(n, random)]
        return
    for draw in wide + narrow:
        yield draw(n, random)


def main():
    harness.need_weft()
    target = Emulated()
    for n in SIZES:
        for number, sums in enumerate(programs(n, np.random.default_rng(n))):
            check_sums(f"host/{n}", sums, harness.scratch(f"long_sums/{n}_{number}"), harness.weft)
            # The emulation computes a library's products by itself, and has no bf16.
            emulated = [each for each in sums if each.node[0] not in ("MatMul", "MatMulNBits", "Attention") and each.dtype != "bf16"]
            if emulated:
                check_sums(f"cuda/{n}", emulated, harness.scratch(f"long_sums/cuda_{n}_{number}"), target.run, target.environment)


main()
