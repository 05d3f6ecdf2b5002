# test: fast
"""Operators of com.microsoft against ONNX Runtime, one node a model."""

import itertools
import math
import sys

import ml_dtypes
import numpy as np

import harness
from one_node import Rows, Weight, model_of, results_of, write_case
from verify_many import report_complete, verify_many

DOMAIN = "com.microsoft"
FLOAT, INT32, BOOL, FLOAT16 = 1, 6, 9, 10
random = np.random.default_rng(5)


def real(*shape):
    return random.uniform(-1, 1, shape).astype(np.float32)


def integers(*values):
    return np.array(values, np.int32)


def multi_head_cases():
    """Shapes: batch 2, 3 queries, 4 keys, 2 heads of 4."""
    q, k, v, bias = real(2, 3, 8), real(2, 4, 8), real(2, 4, 8), real(24)
    past = [real(2, 2, 5, 4), real(2, 2, 5, 4)]
    heads = {"num_heads": 2}
    yield "plain", [q, k, v], (FLOAT,), heads
    yield "bias", [q, k, v, bias], (FLOAT,), heads
    yield "wide_values", [q, k, real(2, 4, 12)], (FLOAT,), {**heads, "scale": 0.3}
    yield "padding", [q, k, v, bias, np.array([[1, 1, 1, 0], [1, 1, 0, 0]], np.int32)], (FLOAT,), heads
    yield "lengths", [q, k, v, None, integers(4, 2)], (FLOAT,), heads
    yield "scores", [q, k, v, None, None, real(2, 2, 3, 4)], (FLOAT,), heads
    yield "causal", [q, q, q], (FLOAT,), {**heads, "unidirectional": 1}
    yield "past", [q, q, q, None, None, None, *past], (FLOAT,) * 3, heads
    yield "past_causal", [q, q, q, bias, None, None, *past], (FLOAT,) * 3, {**heads, "unidirectional": 1}
    yield "cross", [q, real(2, 2, 4, 4), real(2, 2, 4, 4)], (FLOAT,), heads


def attention_cases():
    x, w, b = real(2, 3, 6), Weight(real(6, 24)), Weight(real(24))
    heads = {"num_heads": 2}
    yield "plain", [x, w, b], (FLOAT,), heads
    yield "present", [x, w, b], (FLOAT, FLOAT), {**heads, "unidirectional": 1}
    yield "padding", [x, w, b, np.array([[1, 1, 1], [1, 1, 0]], np.int32)], (FLOAT,), heads
    yield "lengths", [x, w, b, integers(3, 2)], (FLOAT,), heads
    yield "past", [x, w, b, None, real(2, 2, 2, 5, 4)], (FLOAT, FLOAT), {**heads, "unidirectional": 1}
    yield "scores", [x, w, b, None, None, real(1, 2, 3, 3)], (FLOAT,), heads
    yield "widths", [x, Weight(real(6, 22)), Weight(real(22))], (FLOAT,), {**heads, "qkv_hidden_sizes": [8, 8, 6]}


def group_query_cases():
    """4 query heads, 2 key heads of 16: a first prompt, and steps after a past of 5."""
    heads = {"num_heads": 4, "kv_num_heads": 2}
    cache = [Weight(real(16, 8)), Weight(real(16, 8))]
    rotated = {**heads, "do_rotary": 1}

    def step(batch, queries, total, past, lengths=None):
        known = [real(batch, 2, past, 16), real(batch, 2, past, 16)] if past else [None, None]
        lengths = lengths or [total - 1] * batch
        return [real(batch, queries, 64), real(batch, queries, 32), real(batch, queries, 32), *known,
                integers(*lengths), Weight(np.array(total, np.int32))]

    outputs = (FLOAT,) * 3
    yield "prompt", step(2, 3, 3, 0), outputs, heads
    yield "prompt_rotated", [*step(1, 3, 3, 0), *cache], outputs, rotated
    yield "prompt_interleaved", [*step(1, 3, 3, 0), *cache], outputs, {**rotated, "rotary_interleaved": 1}
    yield "step", [*step(1, 1, 6, 5), *cache], outputs, rotated
    yield "steps", [*step(1, 3, 8, 5), *cache], outputs, rotated
    yield "batch", [*step(2, 1, 6, 5, [5, 3]), *cache], outputs, rotated
    yield "shared", [*step(1, 1, 6, 10), *cache], outputs, rotated
    for name, total, lengths in ("counted", 5, [4, 2]), ("counted_full", 8, [7, 5]), ("counted_growing", 9, [8, 6]):
        *operands, known = step(2, 1, total, 8, lengths)
        yield name, [*operands, known.array, *cache], outputs, rotated
    yield "counted_prompt", [*step(1, 5, 5, 8)[:6], integers(5)], outputs, heads
    yield "counted_tokens", [*step(1, 3, 6, 8)[:6], integers(6)], outputs, heads
    yield "window", [*step(1, 1, 6, 5), *cache], outputs, {**rotated, "local_window_size": 3}
    yield "softcap", step(1, 2, 7, 5), outputs, {**heads, "softcap": 2.0, "scale": 0.5}
    yield "scores", [*step(1, 1, 6, 5), *cache, None, real(1, 4, 1, 6)], outputs, rotated
    yield "positions", [*step(1, 1, 6, 5), *cache, np.array([[7]], np.int64)], outputs, rotated
    packed = step(1, 3, 3, 0)
    yield "packed", [real(1, 3, 128), None, None, *packed[3:], *cache], outputs, rotated


def rotary_cases():
    cos, sin = Weight(real(16, 4)), Weight(real(16, 4))
    yield "offset", [real(2, 3, 16), np.array([4], np.int64), cos, sin], (FLOAT,), {}
    yield "positions", [real(2, 3, 16), np.array([[4, 5, 6], [0, 1, 2]], np.int64), cos, sin], (FLOAT,), {}
    yield "heads", [real(2, 2, 3, 8), np.array([0], np.int64), cos, sin], (FLOAT,), {"interleaved": 1}
    yield "part", [real(2, 3, 24), np.array([0], np.int64), cos, sin], (FLOAT,), {
        "num_heads": 2, "rotary_embedding_dim": 8}


def quantised_cases():
    for bits, n, k, size in [*itertools.product((4, 8), (6,), (32, 40), (16,)), (2, 130, 192, 64), (4, 130, 192, 32), (8, 130, 192, 16)]:
        blocks = -(-k // size)
        packed = Weight(random.integers(0, 256, (n, blocks, size * bits // 8)).astype(np.uint8))
        scales = Weight(real(n, blocks))
        zeros = Weight(random.integers(0, 256, (n, -(-blocks * bits // 8))).astype(np.uint8))
        attrs = {"K": k, "N": n, "bits": bits, "block_size": size}
        yield f"weight_{bits}_{n}x{k}", [real(2, 3, k), packed, scales], (FLOAT,), attrs
        yield f"zeros_{bits}_{n}x{k}", [real(5, k), packed, scales, zeros], (FLOAT,), attrs
        yield f"bias_{bits}_{n}x{k}", [real(1, k), packed, scales, None, None, Weight(real(n))], (FLOAT,), attrs
    half = [real(3, k).astype(np.float16), packed, Weight(real(n, blocks).astype(np.float16))]
    yield "half", half, (10,), attrs


def gathered_cases():
    yield from gathered_elements()
    for bits in (4, 8):
        data = Weight(random.integers(0, 256, (7, 32 * bits // 8)).astype(np.uint8))
        scales, indices = Weight(real(7, 2)), np.array([[3, 0], [6, 6]], np.int64)
        attrs = {"bits": bits, "block_size": 16, "quantize_axis": 1, "gather_axis": 0}
        yield f"plain_{bits}", [data, indices, scales], (FLOAT,), attrs
        zeros = Weight(random.integers(0, 256, (7, 2 * bits // 8)).astype(np.uint8))
        yield f"zeros_{bits}", [data, indices, scales, zeros], (FLOAT,), attrs


def gathered_elements():
    """Tables whose numbers are elements of their own: any axes, part of a block at the end, indices that are nowhere."""
    few = {"block_size": 16, "gather_axis": 0, "quantize_axis": 1}
    for dtype in ml_dtypes.int4, ml_dtypes.uint4, ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2, ml_dtypes.float4_e2m1fn:
        name, numbers = np.dtype(dtype).name, random.integers(0, 7, (7, 20)).astype(dtype)
        indices, scales = np.array([[3, 0], [-1, 6]], np.int64), Weight(real(7, 2))
        yield f"plain_{name}", [Weight(numbers), indices, scales], (FLOAT,), few
        yield f"outside_{name}", [Weight(numbers), np.array([7, 1, -8], np.int32), scales], (FLOAT,), few
        if "float" in name:
            yield f"rows_{name}", [Weight(numbers), indices, Weight(real(1, 1))], (FLOAT,), {**few, "block_size": 0}
            continue
        zeros = Weight(random.integers(0, 7, (7, 2)).astype(dtype))
        yield f"zeros_{name}", [Weight(numbers), indices, scales, zeros], (FLOAT,), few
        yield f"columns_{name}", [Weight(numbers), indices, Weight(real(1, 20))], (FLOAT,), {**few, "gather_axis": 1, "quantize_axis": 0}
        yield f"along_{name}", [Weight(numbers), np.array([17, 3, -2]), scales, zeros], (FLOAT,), {**few, "gather_axis": -1}
        yield f"half_{name}", [Weight(numbers), indices, Weight(real(7, 2).astype(np.float16))], (FLOAT16,), few
    bytes_ = Weight(random.integers(0, 256, (7, 8)).astype(np.uint8))
    yield "outside_bytes", [bytes_, np.array([7, 1]), Weight(real(7, 1))], (FLOAT,), {**few, "bits": 4}
    yield "two_bits", [bytes_, np.array([6, 1]), Weight(real(7, 2)), Weight(np.arange(7).astype(np.uint8)[:, None])], (FLOAT,), {**few, "bits": 2}


def quantised_lstm_cases():
    """As the LSTM of the weights that the integers stand for. ONNX Runtime, which rounds more, is not far."""
    for dtype, directions, each in (np.int8, 1, False), (np.uint8, 2, True), (np.int8, 2, True):
        info, hidden, x = np.iinfo(dtype), 4, real(5, 2, 3)
        attrs = {"hidden_size": hidden, "direction": "bidirectional" if directions == 2 else "forward"}
        shape = (directions, 4 * hidden) if each else (directions,)
        bias, parts, weights = Weight(real(directions, 8 * hidden)), [], []
        for width in 3, hidden:
            numbers = random.integers(info.min, info.max + 1, (directions, width, 4 * hidden)).astype(dtype)
            scale, zero = random.uniform(0.003, 0.006, shape).astype(np.float32), np.full(shape, 0 if each else 7, dtype)
            rows = (directions, 1, -1)
            weights.append(((numbers.astype(np.float32) - zero.reshape(rows)) * scale.reshape(rows)).transpose(0, 2, 1))
            parts.append([Weight(numbers), Weight(scale), Weight(zero)])
        states = [real(directions, 2, hidden), real(directions, 2, hidden)]
        plain = [x, *map(Weight, weights), bias, None, *states]
        wanted = results_of(model_of("LSTM", "", plain, (FLOAT,) * 3, attrs), plain)
        operands = [x, parts[0][0], parts[1][0], bias, None, *states, None, *parts[0][1:], *parts[1][1:]]
        rounded = results_of(model_of("DynamicQuantizeLSTM", DOMAIN, operands, (FLOAT,) * 3, attrs), operands)
        name = f"{np.dtype(dtype).name}_{directions}"
        harness.check(f"DynamicQuantizeLSTM.{name}/onnxruntime", np.abs(wanted[0] - rounded[0]).max() < 0.05, "")
        yield name, operands, attrs, wanted


def fused_cases():
    """(operator, name, operands, outputs, attributes)"""
    image, filters, bias = real(1, 3, 6, 5), Weight(real(4, 3, 3, 3)), Weight(real(4))
    for activation, params in {"Relu": [], "Tanh": [], "Sigmoid": [], "LeakyRelu": [0.1], "Clip": [-0.2, 0.3],
                               "HardSigmoid": [0.2, 0.4], "HardSwish": []}.items():
        attrs = {"activation": activation, "pads": [1, 1, 1, 1], **({"activation_params": params} if params else {})}
        yield "FusedConv", activation.lower(), [image, filters, bias], (FLOAT,), attrs
    yield "FusedConv", "added", [image, filters, bias, real(1, 4, 6, 5)], (FLOAT,), {
        "activation": "Relu", "kernel_shape": [3, 3], "pads": [1, 1, 1, 1]}
    yield "FusedConv", "strided", [image, filters], (FLOAT,), {"activation": "Relu", "strides": [2, 2]}
    matrices = [real(3, 4), Weight(real(5, 4)), Weight(real(5))]
    yield "FusedGemm", "relu", matrices, (FLOAT,), {"activation": "Relu", "transB": 1, "alpha": 0.5}
    yield "FusedGemm", "leaky", matrices, (FLOAT,), {"activation": "LeakyRelu", "activation_alpha": 0.2, "transB": 1}
    for activation in "Softplus", "Softsign":
        yield "FusedGemm", activation.lower(), matrices, (FLOAT,), {"activation": activation, "transB": 1}
    yield "FusedMatMul", "batch_between", [real(3, 2, 4), real(2, 4, 5)], (FLOAT,), {"transBatchA": 1}
    yield "FusedMatMul", "batches_between", [real(4, 2, 6, 3), real(5, 2, 6, 4)], (FLOAT,), {
        "transA": 1, "transB": 1, "transBatchA": 1, "transBatchB": 1}
    yield "FusedMatMul", "turned", [real(2, 4, 3), real(2, 5, 4)], (FLOAT,), {"transA": 1, "transB": 1, "alpha": 0.5}
    words = [np.array([[1, 4, 0], [2, 2, 3]], np.int32), np.array([[0, 0, 1], [0, 1, 1]], np.int32), Weight(real(5, 8)),
             Weight(real(6, 8)), Weight(real(2, 8)), Weight(real(8)), Weight(real(8))]
    mask = np.array([[1, 1, 1], [1, 1, 0]], np.int32)
    yield "EmbedLayerNormalization", "mask", [*words, mask], (FLOAT, INT32), {}
    yield "EmbedLayerNormalization", "sum", [*words], (FLOAT, INT32, FLOAT), {"epsilon": 1e-5}
    words[1] = words[4] = None
    yield "EmbedLayerNormalization", "positions", [*words, None, np.array([[2, 1, 0]], np.int32)], (FLOAT, INT32), {}
    yield "EmbedLayerNormalization", "rows", [Rows(words[0]), *words[1:]], (FLOAT, INT32), {}
    x, w = real(2, 3, 8), Weight(real(8))
    yield "SkipLayerNormalization", "all", [x, real(2, 3, 8), w, Weight(real(8)), Weight(real(8))], (FLOAT, 0, 0, FLOAT), {}
    yield "SkipLayerNormalization", "row", [x, real(1, 3, 8), w, Weight(real(8))], (FLOAT,), {}
    yield "SkipLayerNormalization", "table", [x, real(3, 8), w, Weight(real(8))], (FLOAT,), {}
    yield "SkipSimplifiedLayerNormalization", "all", [x, real(2, 3, 8), w, Weight(real(8))], (FLOAT, 0, 0, FLOAT), {}
    yield "Gelu", "plain", [x], (FLOAT,), {}
    yield "BiasGelu", "plain", [x, w], (FLOAT,), {}
    yield "FastGelu", "bias", [x, w], (FLOAT,), {}
    yield "QuickGelu", "plain", [x], (FLOAT,), {"alpha": 1.5}


def expert_cases():
    """4 experts, tokens of 8, layers of 6."""
    x, ratings = real(2, 3, 8), real(6, 4)
    layers = [Weight(real(4, 6, 8)), Weight(real(4, 6)), Weight(real(4, 8, 6)), Weight(real(4, 8))]
    for activation in ("relu", "gelu", "silu", "identity"):
        yield activation, [x, ratings, *layers], (FLOAT,), {"activation_type": activation, "k": 2}
    yield "normalised", [x, ratings, *layers], (FLOAT,), {
        "activation_type": "silu", "k": 2, "normalize_routing_weights": 1}
    joined = [Weight(real(4, 12, 8)), Weight(real(4, 12)), *layers[2:]]
    yield "swiglu", [x, ratings, *joined], (FLOAT,), {
        "activation_type": "swiglu", "k": 2, "swiglu_fusion": 1, "activation_alpha": 1.702, "activation_beta": 1.0,
        "swiglu_limit": 0.5}


def packed_cases():
    """(name, operands, the same operands apart): ONNX Runtime reads packed ones on GPUs alone."""
    packed, keys, q = real(2, 3, 2, 3, 4), real(2, 4, 2, 2, 4), real(2, 3, 8)
    yield "packed", [packed], [np.ascontiguousarray(packed[:, :, :, i]).reshape(2, 3, 8) for i in range(3)]
    yield "packed_keys", [q, keys], [q, *[np.ascontiguousarray(keys[:, :, :, i]).reshape(2, 4, 8) for i in range(2)]]


# Operators that ONNX Runtime has only on GPUs are compared with NumPy.
def numpy_cases():
    x, bias, skip = real(2, 3, 8), real(8), real(2, 3, 8)
    yield "BiasAdd", "plain", [x, bias, skip], {}, x + bias + skip
    left, right = np.split((x + bias).astype(np.float64), 2, axis=2)
    erf = np.vectorize(__import__("math").erf)
    yield "BiasSplitGelu", "plain", [x, bias], {}, (left * right * 0.5 * (1 + erf(right / np.sqrt(2)))).astype(np.float32)
    image, filters = real(1, 4, 5, 2), real(3, 2, 2, 2)
    wanted = np.zeros((1, 3, 2, 3))
    for i, j in itertools.product(range(3), range(2)):
        patch = image[0, i:i + 2, 2 * j:2 * j + 2]
        wanted[0, i, j] = np.einsum("hwc,mchw->m", patch, filters)
    yield "NhwcConv", "strided", [image, Weight(filters)], {"strides": [1, 2]}, wanted.astype(np.float32)


# So is what ONNX Runtime's package for training alone has.
def training_cases():
    """(operator, name, operands, attributes, results)"""
    g, x, y = real(2, 3, 4), real(2, 3, 4), np.exp(real(2, 3, 4))
    yield "ReluGrad", "plain", [g, np.maximum(x, 0)], {}, [g * (x > 0)]
    for name, axes, attrs in (("SoftmaxGrad", (1, 2), {}), ("SoftmaxGrad_13", 1, {"axis": 1})):
        yield name, "plain", [g, y], attrs, [y * (g - (g * y).sum(axes, keepdims=True))]
    for name, axes, attrs in (("LogSoftmaxGrad", (1, 2), {}), ("LogSoftmaxGrad_13", -1, {})):
        yield name, "plain", [g, x], attrs, [g - np.exp(x) * g.sum(axes, keepdims=True)]
    normal = np.vectorize(lambda v: 0.5 * (1 + math.erf(v / math.sqrt(2))))(x)
    yield "GeluGrad", "plain", [g, x], {}, [g * (normal + x * np.exp(-x * x / 2) / math.sqrt(2 * math.pi))]
    flag = np.array([True])
    yield "InPlaceAccumulatorV2", "adds", [x, g], {}, [flag, x + g]
    yield "InPlaceAccumulatorV2", "overwrites", [x, g, flag], {}, [flag, g]
    mean, scale = x.mean(-1, keepdims=True), real(4)
    inverse = 1 / np.sqrt(x.var(-1, keepdims=True) + 1e-5)
    h, u = (x - mean) * inverse, g * scale
    wanted = inverse * (u - u.mean(-1, keepdims=True) - h * (u * h).mean(-1, keepdims=True))
    yield "LayerNormalizationGrad", "plain", [g, x, scale, mean, inverse], {}, [
        wanted, (g * h).sum((0, 1)), g.sum((0, 1))]
    labels, weights = np.array([[1, 0, 3], [2, 2, 1]]), np.exp(real(4))
    hit = np.arange(4)[None, :, None] == labels[:, None]
    log_probability = np.log(np.exp(real(2, 4, 3)) / 4)
    parts = (np.exp(log_probability) - hit) * 0.5
    dy = np.array(0.5, np.float32)
    yield "SoftmaxCrossEntropyLossGrad", "mean", [dy, log_probability, labels], {}, [parts / 6]
    share = weights[labels] * (labels != 2)
    yield "SoftmaxCrossEntropyLossGrad", "weights", [dy, log_probability, labels, weights], {"ignore_index": 2}, [
        parts * (share / share.sum())[:, None]]


GROUPS = {"MultiHeadAttention": multi_head_cases, "Attention": attention_cases, "GroupQueryAttention": group_query_cases,
          "RotaryEmbedding": rotary_cases, "MatMulNBits": quantised_cases, "GatherBlockQuantized": gathered_cases,
          "MoE": expert_cases}


def all_cases(folder):
    for op, cases in GROUPS.items():
        for name, operands, outputs, attrs in cases():
            yield write_case(folder, f"{op}.{name}", op, DOMAIN, operands, outputs, attrs)
    for name, operands, apart in packed_cases():
        op, attrs = "MultiHeadAttention", {"num_heads": 2}
        wanted = results_of(model_of(op, DOMAIN, apart, (FLOAT,), attrs), apart)
        yield write_case(folder, f"{op}.{name}", op, DOMAIN, operands, (FLOAT,), attrs, wanted)
    for name, operands, attrs, wanted in quantised_lstm_cases():
        yield write_case(folder, f"DynamicQuantizeLSTM.{name}", "DynamicQuantizeLSTM", DOMAIN, operands, (FLOAT,) * 3, attrs, wanted)
    for op, name, operands, outputs, attrs in fused_cases():
        yield write_case(folder, f"{op}.{name}", op, DOMAIN, operands, outputs, attrs)
    for op, name, operands, attrs, wanted in numpy_cases():
        yield write_case(folder, f"{op}.{name}", op, DOMAIN, operands, (FLOAT,), attrs, [wanted])
    for op, name, operands, attrs, wanted in training_cases():
        types = [BOOL if array.dtype == bool else FLOAT for array in wanted]
        results = [array if array.dtype == bool else array.astype(np.float32) for array in wanted]
        yield write_case(folder, f"{op}.{name}", op, DOMAIN, operands, types, attrs, results)


def main(parts):
    folder = harness.scratch("contrib")
    cases = [case for case in all_cases(folder) if not parts or any(part in case.name for part in parts)]
    report_complete(verify_many(cases, folder))


if __name__ == "__main__":
    harness.need_weft()
    main(sys.argv[1:])
