"""Cases of one node for the table of records, of operators and operands that no other group has alone. ONNX Runtime says
what they give."""

import numpy as np

from one_node import Weight, model_of
from record_table import Base, by_runtime

FLOAT, UINT8, INT32, INT64 = 1, 2, 6, 7
MICROSOFT = "com.microsoft"
random = np.random.default_rng(11)


def real(*shape):
    return random.uniform(-1, 1, shape).astype(np.float32)


def byte(*shape, dtype=np.uint8):
    return random.integers(3, 120, shape).astype(dtype)


def scale(value):
    return np.array(value, np.float32)


def zero(value, dtype=np.uint8):
    return np.array(value, dtype)


def quantised():
    """(operator, operands, types of the results, attributes): integers with a scale and a zero point each."""
    a, b = [byte(2, 3), scale(0.0213), zero(3)], [byte(2, 3), scale(0.0471), zero(60)]
    y = [scale(0.0377), zero(7)]
    yield "QLinearAdd", [*a, *b, *y], (UINT8,), {}
    yield "QLinearMul", [*a, *b, *y], (UINT8,), {}
    yield "QLinearSigmoid", [*a, scale(0.004), zero(1)], (UINT8,), {}
    yield "QLinearLeakyRelu", [*a, *y], (UINT8,), {"alpha": 0.1}
    yield "QLinearSoftmax", [*a, scale(1 / 256), zero(0)], (UINT8,), {"axis": -1, "opset": 13}
    image = [byte(1, 3, 6, 6), scale(0.02), zero(3)]
    yield "QLinearAveragePool", [*image, *y], (UINT8,), {"kernel_shape": [3, 3], "strides": [2, 2]}
    yield "QLinearGlobalAveragePool", [*image, *y], (UINT8,), {"channels_last": 0}
    yield "QLinearConcat", [*y, *a, *b], (UINT8,), {"axis": 1}
    yield "QuantizeLinear", [real(2, 3), scale(0.01), zero(128)], (UINT8,), {}
    yield "DequantizeLinear", [byte(2, 3), scale(0.01), zero(128)], (FLOAT,), {}
    weight = [byte(4, 5), scale(0.03)]
    yield "DynamicQuantizeMatMul", [real(3, 4), *weight, zero(9), real(5)], (FLOAT,), {}
    yield "MatMulIntegerToFloat", [byte(3, 4), weight[0], scale(0.02), weight[1], zero(4), zero(9), real(5)], (FLOAT,), {}
    c = np.arange(5, dtype=np.int32)
    yield "QGemm", [byte(4, 3), scale(0.02), zero(4), byte(5, 4), scale(0.03), zero(9), c], (FLOAT,), {"transA": 1, "transB": 1}
    yield "QGemm", [byte(3, 4), scale(0.02), zero(4), *weight, zero(9), c, *y], (UINT8,), {"alpha": 1.0}


def others():
    """(domain, operator, operands, types of the results, attributes)"""
    image, filters = real(1, 3, 6, 6), real(4, 3, 3, 3)
    yield "", "Conv", [image, filters, real(4)], (FLOAT,), {"pads": [1, 1, 1, 1]}
    yield "", "ConvTranspose", [image, real(3, 2, 3, 3), real(2)], (FLOAT,), {"strides": [2, 2]}
    yield "", "QLinearConv", [byte(1, 2, 5, 5), scale(0.02), zero(3), Weight(byte(3, 2, 3, 3)), scale(0.03), zero(5),
                              scale(0.4), zero(8), np.arange(3, dtype=np.int32)], (UINT8,), {}
    yield "", "DFT", [real(1, 6, 1), np.array(8), np.array(1)], (FLOAT,), {}
    lengths = np.array([3, 2], np.int32)
    yield "", "RNN", [real(3, 2, 4), real(1, 5, 4), real(1, 5, 5), real(1, 10), lengths, real(1, 2, 5)], (FLOAT, FLOAT), {
        "hidden_size": 5}
    yield "", "GRU", [real(3, 2, 4), real(1, 15, 4), real(1, 15, 5), real(1, 30), lengths, real(1, 2, 5)], (FLOAT, FLOAT), {
        "hidden_size": 5}
    for op, gates in (("RNN", 1), ("GRU", 3), ("LSTM", 4)):
        rows = gates * 5
        yield "", op, [real(3, 2, 4), real(2, rows, 4), real(2, rows, 5)], (FLOAT, FLOAT), {
            "hidden_size": 5, "direction": "bidirectional"}
    yield "", "MaxRoiPool", [image, np.array([[0, 0, 0, 3, 3], [0, 1, 2, 5, 5]], np.float32)], (FLOAT,), {"pooled_shape": [2, 2]}
    yield "", "GlobalLpPool", [image], (FLOAT,), {"p": 2}
    yield "", "ReduceSum", [real(2, 3, 4), np.array([1])], (FLOAT,), {}
    yield "", "Squeeze", [real(1, 3, 1), np.array([0])], (FLOAT,), {}
    experts = [real(3, 4), real(3, 2), real(2, 6, 4), real(2, 6), real(2, 4, 6), real(2, 4)]
    yield MICROSOFT, "MoE", experts, (FLOAT,), {"k": 1, "activation_type": "relu"}
    yield MICROSOFT, "SkipSimplifiedLayerNormalization", [real(1, 2, 4), real(1, 2, 4), real(4), real(4)], (FLOAT,), {}
    yield MICROSOFT, "SkipLayerNormalization", [real(1, 2, 4), real(1, 2, 4), real(4), real(4)], (FLOAT,), {}
    yield MICROSOFT, "FastGelu", [real(2, 4), real(4)], (FLOAT,), {}
    yield MICROSOFT, "FusedGemm", [real(2, 4), real(4, 3), real(3)], (FLOAT,), {"activation": "Relu"}
    yield MICROSOFT, "FusedGemm", [real(4, 2), real(3, 4)], (FLOAT,), {"activation": "Relu", "transA": 1, "transB": 1}
    yield MICROSOFT, "FusedMatMul", [real(2, 3, 4), real(2, 4, 5)], (FLOAT,), {"alpha": 0.5}


def channels_last():
    """NhwcConv, which ONNX Runtime has no kernel for, by the Conv that it stands for."""
    image, filters, bias = real(1, 5, 5, 2), real(3, 2, 3, 3), real(3)
    feeds = {"x0": image, "x1": filters, "x2": bias}
    turned = {**feeds, "x0": image.transpose(0, 3, 1, 2)}
    model = model_of("Conv", "", list(turned.values()), (FLOAT,), {}, [("", 21)])
    results = by_runtime(Base("", ("", "Conv"), model, turned))
    made = model_of("NhwcConv", MICROSOFT, list(feeds.values()), (FLOAT,), {}, [("", 21)])
    return Base("NhwcConv", (MICROSOFT, "NhwcConv"), made, feeds), [results[0].transpose(0, 2, 3, 1)]


def normalised_heads():
    """GroupQueryAttention that normalises queries and keys, by one of queries and keys that are normalised."""
    width, attrs = 16, {"num_heads": 4, "kv_num_heads": 2}
    q, k, v, q_weight, k_weight = real(1, 3, 64), real(1, 3, 32), real(1, 3, 32), real(width), real(width)
    counts = [np.array([2], np.int32), np.array(3, np.int32)]

    def normalised(x, weight):
        heads = x.reshape(1, 3, -1, width)
        return (heads / np.sqrt((heads * heads).mean(-1, keepdims=True) + 1e-6) * weight).reshape(x.shape)

    plain = [normalised(q, q_weight), normalised(k, k_weight), v, None, None, counts[0], Weight(counts[1])]
    model = model_of("GroupQueryAttention", MICROSOFT, plain, (FLOAT,) * 3, attrs, [("", 21)])
    feeds = {f"x{i}": plain[i] for i in (0, 1, 2, 5)}
    results = by_runtime(Base("", (MICROSOFT, "GroupQueryAttention"), model, feeds))
    operands = [q, k, v, None, None, counts[0], Weight(counts[1]), *[None] * 7, q_weight, k_weight]
    made = model_of("GroupQueryAttention", MICROSOFT, operands, (FLOAT,) * 3, attrs, [("", 21)])
    feeds = {f"x{i}": operands[i] for i in (0, 1, 2, 5, 14, 15)}
    return Base("GroupQueryAttention_norm", (MICROSOFT, "GroupQueryAttention"), made, feeds), results


def gated_experts():
    """MoE with a third weight, of two experts that both count."""
    x, ratings = real(3, 4), real(3, 2)
    layers = [real(2, 6, 4), real(2, 6), real(2, 4, 6), real(2, 4), real(2, 6, 4), real(2, 6)]
    first, first_bias, second, second_bias, third, third_bias = layers
    inner = np.einsum("ti,eoi->eto", x, first) + first_bias[:, None]
    inner = inner / (1 + np.exp(-inner)) * (np.einsum("ti,eoi->eto", x, third) + third_bias[:, None])
    each = np.einsum("eti,eoi->eto", inner, second) + second_bias[:, None]
    powers = np.exp(ratings)
    result = np.einsum("eto,te->to", each, powers / powers.sum(1, keepdims=True))
    operands = [x, ratings, *layers]
    model = model_of("MoE", MICROSOFT, operands, (FLOAT,), {"k": 2, "activation_type": "silu"}, [("", 21)])
    feeds = {f"x{i}": operand for i, operand in enumerate(operands)}
    return Base("MoE_gated", (MICROSOFT, "MoE"), model, feeds), [result.astype(np.float32)]


def all_bases():
    """Bases with their results, which ONNX Runtime has to know, or a formula."""
    yield from (channels_last(), normalised_heads(), gated_experts())
    rows = [(MICROSOFT, *row) for row in quantised()]
    for index, (domain, op, operands, outputs, attrs) in enumerate([*rows, *others()]):
        model = model_of(op, domain, operands, outputs, attrs, [("", 21)])
        feeds = {f"x{i}": operand for i, operand in enumerate(operands) if not isinstance(operand, Weight)}
        base = Base(f"{op}_{index}", (domain, op), model, feeds)
        yield base, by_runtime(base)
