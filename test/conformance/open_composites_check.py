# test: slow
"""Composite operators beside open dims: one executable of many nodes for every batch, length and past equals ONNX Runtime at
each request, and refuses lengths that a node takes for one. In `full` all of them, also on 2 ranks that share the heads."""

import collections
import sys

import numpy as np
import onnx
import onnxruntime
from onnx import helper

import harness

FLOAT = onnx.TensorProto.FLOAT
MICROSOFT = "com.microsoft"
BOUNDS = {"b": 4, "s": 6, "p": 5, "t": 11, "p + s": 11, "q": 6, "p + q": 11, "u": 11, "v": 9, "m": 7, "n": 9, "c": 6, "2*s": 12}
REQUESTS = [{"b": 4, "s": 6, "p": 5, "m": 7}, {"b": 2, "s": 1, "p": 4, "m": 1}, {"b": 1, "s": 5, "p": 2, "m": 4},
            {"b": 3, "s": 3, "p": 0, "m": 3}]
random = np.random.default_rng(11)

# Requests that a node refuses: lengths that do not fit (keys and values of the cross attention), keys that are nowhere.
WRONG = [({**REQUESTS[0], "n": 6}, "node 'Attention.cross' (Attention): m is 7, but must be n, which is 6"),
         ({**REQUESTS[1], "u": 6}, "node 'GroupQueryAttention.both' (GroupQueryAttention): u is 6, but must be p + q, which is 5"),
         ({**REQUESTS[1], "v": 0}, "node 'GroupQueryAttention.room' (GroupQueryAttention): q is 1, but must be at most v, which is 0"),
         ({**REQUESTS[1], "data": 4}, "node 'GroupQueryAttention.data' (GroupQueryAttention): index 4 lies outside"),
         ({**REQUESTS[1], "last": 5}, "node 'GroupQueryAttention.both' (GroupQueryAttention): index 5 lies outside")]
# By default a node without and some with a cache, windows, and transforms.
DEFAULT = ("Attention.cross", "Attention.past", "GroupQueryAttention.both", "Conv.upper", "Conv.depthwise", "Pool.ceil",
           "Pool.upper", "RoiAlign", "MaxRoiPool", "STFT.plain", "DFT.onesided")

# An operand whose dims are numbers or names of BOUNDS, filled by a function of a shape and the lengths of a request.
Open = collections.namedtuple("Open", "shape fill", defaults=(None,))
# Lengths by the names of their dims, which the model computes from shapes, as integers of `dtype`; "p-s" is a difference
# of two.
Lengths = collections.namedtuple("Lengths", "dims dtype", defaults=(np.int64,))
Node = collections.namedtuple("Node", "name op domain operands outputs attrs")


def real(shape, _):
    return random.uniform(-1, 1, shape).astype(np.float32)


def few(shape, _):
    """Numbers of which some are equal."""
    return random.integers(1, 3, shape).astype(np.float32)


def weight(*shape):
    return real(shape, None)


def mask(shape, _):
    return np.tril(np.ones(shape[-2:], bool), shape[-1] - shape[-2]) & np.ones(shape, bool)


def places(shape, lengths):
    return np.broadcast_to(np.arange(shape[1]) + lengths["p"], shape).astype(np.int64)


def filled(shape, lengths):
    return np.maximum(lengths["s"] - np.arange(shape[0]) % 2, 1).astype(np.int32)


def ones_and_zeros(shape, lengths):
    return (np.arange(shape[1]) < filled(shape, {"s": shape[1]})[:, None]).astype(np.int32)


def attention_nodes():
    """4 heads of 8, of keys 2."""
    q, k = Open(["b", 4, "s", 8]), Open(["b", 2, "s", 8])
    past = [Open(["b", 2, "p", 8]), Open(["b", 2, "p", 8])]
    flat, heads = Open(["b", "s", 32]), {"q_num_heads": 4, "kv_num_heads": 4}
    yield "plain", [q, q, q], 1, {}
    yield "flat", [flat, flat, flat], 1, heads
    yield "cross", [q, Open(["b", 4, "m", 8]), Open(["b", 4, "n", 8])], 1, {"softcap": 2.0}
    yield "causal", [flat, flat, flat], 1, {**heads, "is_causal": 1}
    yield "grouped", [q, k, k], 1, {"is_causal": 1}
    yield "past", [q, k, k, Open(["s", "t"], mask), *past], 3, {}
    yield "past_causal", [q, k, k, None, *past], 3, {"is_causal": 1}
    yield "mask", [q, q, q, Open(["b", 1, "s", "s"])], 1, {}


def rotary_nodes():
    cos, sin = weight(16, 4), weight(16, 4)
    at, heads = Open(["b", "s"], places), {"num_heads": 2}
    yield "", "heads", [Open(["b", 2, "s", 8]), cos, sin, at], {}
    yield "", "flat", [Open(["b", "s", 16]), cos, sin, at], {**heads, "interleaved": 1}
    yield "", "part", [Open(["b", 2, "s", 12]), cos, sin, at], {"rotary_embedding_dim": 8}
    yield "", "rows", [Open(["b", 2, "s", 8]), Open(["b", "s", 4]), Open(["b", "s", 4])], {}
    yield MICROSOFT, "offset", [Open(["b", "s", 16]), np.array([4]), cos, sin], {}
    yield MICROSOFT, "positions", [Open(["b", "s", 16]), at, cos, sin], {"interleaved": 1}


def microsoft_nodes():
    q, bias, heads = Open(["b", "s", 8]), weight(24), {"num_heads": 2}
    k = Open(["b", "m", 8])
    past = [Open(["b", 2, "p", 4]), Open(["b", 2, "p", 4])]
    yield "MultiHeadAttention", "plain", [q, k, k], 1, heads
    yield "MultiHeadAttention", "padding", [q, q, q, bias, Open(["b", "s"], ones_and_zeros)], 1, heads
    yield "MultiHeadAttention", "lengths", [q, q, q, None, Open(["b"], filled)], 1, heads
    yield "MultiHeadAttention", "scores", [q, k, k, None, None, Open([1, 2, "s", "m"])], 1, heads
    yield "MultiHeadAttention", "past", [q, q, q, bias, None, None, *past], 3, {**heads, "unidirectional": 1}
    experts = [weight(3, 10, 6), weight(3, 10), weight(3, 6, 5), weight(3, 6)]
    swiglu = {"k": 2, "activation_type": "swiglu", "swiglu_fusion": 1, "normalize_routing_weights": 1}
    yield "MoE", "tokens", [Open(["s", 6]), Open(["s", 3]), *experts], 1, swiglu
    yield "MoE", "sequences", [Open([2, "s", 6]), Open(["2*s", 3]), weight(3, 5, 6), None, *experts[2:]], 1, {"k": 1}
    x, w = Open(["b", "s", 6]), weight(6, 24)
    yield "Attention", "plain", [x, w, bias], 1, heads
    yield "Attention", "padding", [x, w, bias, Open(["b", "s"], ones_and_zeros)], 1, heads
    yield "Attention", "past", [x, w, bias, None, Open([2, "b", 2, "p", 4])], 2, {**heads, "unidirectional": 1}


def group_query_nodes():
    """4 heads of 16, of keys 2; the total length is a dim of another input, as of a mask. ONNX Runtime accepts several
    tokens after a past only for a batch of one, so that a batch has the dim `q`: a prompt or a token."""
    heads, rotated = {"num_heads": 4, "kv_num_heads": 2}, {"num_heads": 4, "kv_num_heads": 2, "do_rotary": 1}
    caches = [weight(16, 8), weight(16, 8)]

    def operands(batch, queries, past, total, filled):
        key = Open([batch, queries, 32])
        known = [Open([batch, 2, past, 16])] * 2 if past else [None, None]
        return [Open([batch, queries, 64]), key, key, *known, Open([batch], filled), Lengths([total], np.int32)]

    def last(shape, lengths):
        return np.full(shape, lengths["t"] - 1, np.int32)

    def last_of_prompt(shape, lengths):
        return np.full(shape, lengths["s"] - 1, np.int32)

    def last_of_each(shape, lengths):
        """ONNX Runtime computes something else for tokens that fill up a prompt, which nobody reads."""
        filled_up = np.arange(shape[0]) % 2 if lengths["p"] else 0
        return np.full(shape, lengths.get("last", lengths["p"] + lengths["q"] - 1) - filled_up, np.int32)

    prompt = operands("b", "s", None, "s", last_of_prompt)
    yield "prompt", prompt, heads
    yield "prompt_rotated", [*prompt, *caches], {**rotated, "rotary_interleaved": 1}
    yield "packed", [Open(["b", "s", 128]), None, None, *prompt[3:], *caches], rotated
    yield "steps", [*operands(1, "s", "p", "t", last), *caches], {**rotated, "local_window_size": 3}
    yield "growing", [*operands(1, "s", "p", "p + s", last), *caches], rotated
    yield "both", [*operands("b", "q", "p", "u", last_of_each), *caches], {**rotated, "softcap": 2.0}
    yield "both_growing", operands("b", "q", "p", "p + q", last_of_each), heads
    yield "scores", [*operands("b", "q", "p", "u", last_of_each), *caches, None, Open([1, 4, "q", "u"])], rotated
    yield "positions", [*operands("b", "q", "p", "u", last_of_each), *caches, Open(["b", "q"], places)], rotated
    yield "data", [*operands(2, 1, 4, "u", None)[:5], Open([2], lambda *_: np.array([4, 2], np.int32)),
                   Open([1], lambda _, lengths: np.array([lengths.get("data", 5)], np.int32))], heads
    yield "room", [*operands("b", "q", 9, "v", last_of_each), *caches], rotated


def recurrent_nodes():
    """Inputs of 3, states of 4."""
    x, state = Open(["s", "b", 3]), Open([1, "c", 4])
    for op, gates in ("LSTM", 4), ("GRU", 3), ("RNN", 1):
        one = [weight(1, 4 * gates, 3), weight(1, 4 * gates, 4), weight(1, 8 * gates)]
        both = [weight(2, 4 * gates, 3), weight(2, 4 * gates, 4), weight(2, 8 * gates)]
        states = [state, state] if op == "LSTM" else [state]
        yield op, "plain", [x, *one], {"hidden_size": 4}
        yield op, "states", [x, *one, Open(["b"], filled), *states], {"hidden_size": 4}
        yield op, "both", [x, *both], {"hidden_size": 4, "direction": "bidirectional"}


def split_nodes():
    yield "halves", [Open(["b", "t", 3])], 2, {"axis": 1, "num_outputs": 2}
    yield "thirds", [Open([2, "t"])], 3, {"axis": 1, "num_outputs": 3}
    yield "given", [Open(["t", 2]), Lengths(["p", "s"])], 2, {}


def slice_nodes():
    """Backwards, and from starts that may lie before the first element."""
    def part(start, end, step):
        return np.array([start]), np.array([end]), np.array([1]), np.array([step])

    x, everything = Open(["b", "t", 2]), np.iinfo(np.int64)
    yield "turned", [x, *part(-1, everything.min, -1)]
    yield "back", [x, *part(5, 1, -2)]
    yield "last", [x, *part(-3, everything.max, 1)]
    yield "other", [Open(["t", 2]), Lengths(["p-s"]), Lengths(["t"])]


def moving_nodes():
    """Elements again, in other places, or left out."""
    yield "Tile", "rows", [Open(["b", "s", 3]), np.array([1, 3, 2])], {}
    yield "Tile", "times", [Open(["s"]), Lengths(["m"])], {}
    lengths = Open(["b"], lambda shape, given: filled(shape, given).astype(np.int64))
    yield "ReverseSequence", "time_first", [Open(["s", "b", 2]), lengths], {}
    yield "ReverseSequence", "batch_first", [Open(["b", "s"]), lengths], {"batch_axis": 0, "time_axis": 1}
    yield "Trilu", "diagonal", [Open(["b", "s", "m"]), Lengths(["m-s"])], {"upper": 0}
    yield "Unique", "rows", [Open(["s", "m"], few)], {"axis": 0}
    yield "Unique", "columns", [Open(["b", "t"], few)], {"axis": 1, "sorted": 0}
    yield "Unique", "fixed", [Open([9, 4], few)], {"axis": 0}
    image, grid = Open(["b", 2, "s", "m"]), Open(["b", "p", "t", 2])
    yield "GridSample", "linear", [image, grid], {}
    yield "GridSample", "cubic", [image, grid], {"mode": "cubic", "padding_mode": "reflection", "align_corners": 1}
    yield "Compress", "longer", [Open(["b", "s"]), np.array([1, 1, 0, 1, 0, 1, 1, 1], bool)], {"axis": 1}


def region_nodes():
    """Regions of images, as many as a request has, some of which reach beyond the border."""
    def corners(shape, _):
        first = random.uniform(-1, 0.9, (shape[0], 2))
        return np.concatenate([first, first + random.uniform(2, 14, (shape[0], 2))], 1).astype(np.float32)

    def images(shape, lengths):
        return np.arange(shape[0]) % lengths.get("b", 1)

    def numbered(shape, lengths):
        whole = np.round(corners(shape, lengths))
        return np.concatenate([images(shape, lengths)[:, None], whole], 1).astype(np.float32)

    x, regions, batch = Open(["b", 2, "s", "m"]), Open(["v", 4], corners), Open(["v"], images)
    attrs = {"output_height": 2, "output_width": 3, "spatial_scale": 0.5}
    yield "RoiAlign", "adaptive", [x, regions, batch], attrs
    yield "RoiAlign", "sampled", [x, regions, batch], {**attrs, "sampling_ratio": 2, "coordinate_transformation_mode": "output_half_pixel"}
    yield "RoiAlign", "largest", [x, regions, batch], {**attrs, "sampling_ratio": 1, "mode": "max"}
    yield "MaxRoiPool", "plain", [x, Open(["v", 5], numbered)], {"pooled_shape": [2, 2], "spatial_scale": 0.5}


def scan_nodes():
    """Running sums, from either end."""
    state, row = (helper.make_tensor_value_info(name, FLOAT, [2]) for name in ("state", "row"))
    sums, shown = (helper.make_tensor_value_info(name, FLOAT, [2]) for name in ("sum", "shown"))
    body = helper.make_graph([helper.make_node("Add", ["state", "row"], ["sum"]), helper.make_node("Neg", ["sum"], ["shown"])],
                             "body", [state, row], [sums, shown])
    operands, attrs = [Open([2]), Open(["s", 2])], {"body": body, "num_scan_inputs": 1}
    yield "forward", operands, 2, attrs
    yield "reverse", operands, 2, {**attrs, "scan_input_directions": [1], "scan_output_directions": [1]}


def loop_nodes():
    """Running sums of the numbers of the trips: as many as a shape says, or until one is large."""
    def body(again):
        number = helper.make_tensor_value_info("number", onnx.TensorProto.INT64, [])
        condition, goes_on = (helper.make_tensor_value_info(name, onnx.TensorProto.BOOL, []) for name in ("c", "goes_on"))
        sums, total, shown = (helper.make_tensor_value_info(name, FLOAT, [2]) for name in ("sum", "total", "shown"))
        made = [helper.make_node("Cast", ["number"], ["step"], to=FLOAT), helper.make_node("Add", ["sum", "step"], ["total"]),
                helper.make_node("Neg", ["total"], ["shown"]), *again]
        return {"body": helper.make_graph(made, "body", [number, condition, sums], [goes_on, total, shown])}

    yield "length", [Lengths(["s"]), None, Open([2])], 2, body([helper.make_node("Identity", ["c"], ["goes_on"])])
    small = [helper.make_node("ReduceMax", ["total"], ["largest"], keepdims=0),
             helper.make_node("Constant", [], ["most"], value_float=4.5), helper.make_node("Less", ["largest", "most"], ["goes_on"])]
    yield "early", [np.array(7), None, Open([2])], 2, body(small)
    yield "early_length", [Lengths(["t"]), None, Open([2])], 2, body(small)


def window_nodes():
    """Windows whose padding, or whose last place, depends on the size of the image; one that slides by 1 beside them."""
    image, wide, signal = Open(["b", 4, "s", "m"]), Open(["b", 16, "s", "m"]), Open(["b", 4, "t"])
    filters, bias = weight(6, 4, 3, 3), weight(6)
    upper, lower = {"auto_pad": "SAME_UPPER"}, {"auto_pad": "SAME_LOWER"}
    yield "Conv", "upper", [image, filters, bias], {**upper, "strides": [2, 2]}
    yield "Conv", "lower", [image, filters], {**lower, "strides": [3, 2]}
    yield "Conv", "slow", [image, filters], {**upper, "strides": [1, 1]}
    yield "Conv", "even", [wide, weight(16, 16, 2, 4), weight(16)], {**lower, "strides": [2, 2]}
    yield "Conv", "far", [wide, weight(16, 16, 1, 1)], {**upper, "strides": [2, 3]}
    yield "Conv", "depthwise", [wide, weight(16, 1, 3, 3)], {**upper, "strides": [2, 2], "group": 16}
    yield "Conv", "groups", [wide, weight(16, 8, 3, 3)], {**lower, "strides": [2, 2], "group": 2}
    yield "Conv", "line", [signal, weight(5, 4, 4)], {**upper, "strides": [2]}
    yield "Conv", "volume", [Open(["b", 2, "s", "m", 3]), weight(2, 2, 3, 2, 2)], {**lower, "strides": [2, 2, 2]}
    yield "ConvTranspose", "upper", [image, weight(4, 3, 3, 3)], {**upper, "strides": [2, 2]}
    for op, attrs in ("MaxPool", {}), ("AveragePool", {}), ("AveragePool", {"count_include_pad": 1}), ("LpPool", {"p": 2}):
        name = "all_" if attrs.get("count_include_pad") else ""
        yield op, f"{name}upper", [image], {**attrs, **upper, "kernel_shape": [3, 2], "strides": [2, 2]}
        yield op, f"{name}lower", [wide], {**attrs, **lower, "kernel_shape": [3, 2], "strides": [3, 2]}
        ceil = {**attrs, "ceil_mode": 1, "kernel_shape": [2, 3]}
        yield op, f"{name}ceil", [image], {**ceil, "strides": [2, 2], "pads": [0, 1, 1, 1]}
        yield op, f"{name}ceil_wide", [wide], {**ceil, "strides": [2, 3], "pads": [1, 1, 1, 2]}
    yield "MaxPool", "ceil_line", [signal], {"ceil_mode": 1, "kernel_shape": [2], "strides": [2]}


def spectrum_nodes():
    """Transforms along an open dimension, cut or filled up to a given length, and beside open dimensions."""
    real_signal, complex_signal = Open(["b", "t", 1]), Open(["b", "t", 2])
    second, last = np.array(1), np.array(-2)
    yield "DFT", "real", [real_signal, None, second], {}
    yield "DFT", "onesided", [real_signal, None, last], {"onesided": 1}
    yield "DFT", "inverse", [complex_signal, None, second], {"inverse": 1}
    yield "DFT", "given", [complex_signal, np.array(7), second], {}
    yield "DFT", "beside", [Open(["b", 12, "s", 1]), None, second], {"onesided": 1}
    yield "DFT", "shape", [Open(["s", "t", 1]), Lengths(["t"]), last], {}
    yield "STFT", "plain", [Open(["b", "t", 1]), np.array(2), None, np.array(3)], {}
    yield "STFT", "window", [Open(["b", "t", 1]), np.array(1), weight(3)], {"onesided": 0}
    yield "STFT", "complex", [Open([2, "t", 2]), np.array(2), weight(2)], {"onesided": 0}


def all_nodes():
    for op, name, operands, attrs in (*window_nodes(), *spectrum_nodes()):
        yield Node(f"{op}.{name}", op, "", operands, 1, attrs)
    for name, operands, outputs, attrs in attention_nodes():
        yield Node(f"Attention.{name}", "Attention", "", operands, outputs, attrs)
    for domain, name, operands, attrs in rotary_nodes():
        yield Node(f"RotaryEmbedding.{name}", "RotaryEmbedding", domain, operands, 1, attrs)
    for op, name, operands, outputs, attrs in microsoft_nodes():
        yield Node(f"{op}.microsoft.{name}", op, MICROSOFT, operands, outputs, attrs)
    for name, operands, attrs in group_query_nodes():
        yield Node(f"GroupQueryAttention.{name}", "GroupQueryAttention", MICROSOFT, operands, 3, attrs)
    for op, name, operands, attrs in recurrent_nodes():
        yield Node(f"{op}.{name}", op, "", operands, 3 if op == "LSTM" else 2, attrs)
    for op, nodes in ("Split", split_nodes), ("Scan", scan_nodes), ("Loop", loop_nodes):
        for name, operands, outputs, attrs in nodes():
            yield Node(f"{op}.{name}", op, "", operands, outputs, attrs)
    for op, name, operands, attrs in moving_nodes():
        yield Node(f"{op}.{name}", op, "", operands, 1, attrs)
    for name, operands in slice_nodes():
        yield Node(f"Slice.{name}", "Slice", "", operands, 1, {})


def all_regions():
    """The nodes of images' regions, which ONNX Runtime has of older opsets only."""
    for op, name, operands, attrs in region_nodes():
        yield Node(f"{op}.{name}", op, "", operands, 1, attrs)


def length_nodes(name, dim):
    """The nodes that compute {name}.{dim}.length."""
    parts = dim.split("-")
    made = [helper.make_node("Shape", [f"{name}.{part}"], [f"{name}.{part}.length"]) for part in parts]
    if len(parts) == 2:
        made.append(helper.make_node("Sub", [f"{name}.{part}.length" for part in parts], [f"{name}.{dim}.length"]))
    return made


def parts_of(node):
    """The ONNX nodes and the constants of a node."""
    names = ["" if operand is None else f"{node.name}.x{i}" for i, operand in enumerate(node.operands)]
    results = [f"{node.name}.y{i}" for i in range(node.outputs)]
    made, weights = [], []
    for name, operand in zip(names, node.operands):
        if isinstance(operand, Lengths):
            made += [each for dim in operand.dims for each in length_nodes(name, dim)]
            made.append(helper.make_node("Concat", [f"{name}.{dim}.length" for dim in operand.dims], [f"{name}.all"], axis=0))
            made.append(helper.make_node("Cast", [f"{name}.all"], [name], to=helper.np_dtype_to_tensor_dtype(np.dtype(operand.dtype))))
        elif isinstance(operand, np.ndarray):
            weights.append(onnx.numpy_helper.from_array(operand, name))
    made.append(helper.make_node(node.op, names, results, name=node.name, domain=node.domain, **node.attrs))
    return made, weights


def open_operands(nodes):
    """(name of the input, operand)"""
    for node in nodes:
        for i, operand in enumerate(node.operands):
            if isinstance(operand, Open):
                yield f"{node.name}.x{i}", operand
            elif isinstance(operand, Lengths):
                yield from ((f"{node.name}.x{i}.{dim}", Open([dim])) for each in operand.dims for dim in each.split("-"))


def input_of(name, operand):
    dtype = (operand.fill or real)([1, 1], {"s": 1, "p": 1, "t": 2, "q": 1}).dtype
    return helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(dtype), operand.shape)


def model_of(nodes, opset):
    parts = [parts_of(node) for node in nodes]
    outputs = [helper.make_tensor_value_info(f"{node.name}.y{i}", FLOAT, None) for node in nodes for i in range(node.outputs)]
    graph = helper.make_graph([made for many, _ in parts for made in many], "open",
                              [input_of(*operand) for operand in open_operands(nodes)], outputs,
                              [weight for _, weights in parts for weight in weights])
    return helper.make_model(graph, ir_version=10,
                             opset_imports=[helper.make_opsetid("", opset), helper.make_opsetid(MICROSOFT, 1)])


def shared_heads(nodes, folder):
    """A schedule for 2 ranks, each with half of the heads of every operand that has a dim for them."""
    rows = [f'  "{name}": {{tp: 1}}\n' for name, operand in open_operands(nodes)
            if len(operand.shape) == 4 and operand.shape[1] in (2, 4)]
    path = folder / "heads.yaml"
    path.write_text("weft: 1\nmesh: {tp: 2}\nshard:\n" + "".join(rows))
    return path


def arrays(nodes, request):
    total = request["p"] + request["s"]
    queries = 1 if request["p"] else request["s"]
    both = request["p"] + queries
    lengths = {"t": total, "p + s": total, "q": queries, "u": both, "v": both, "p + q": both, "n": request["m"], "c": request["b"], "2*s": 2 * request["s"], **request}
    return {name: (operand.fill or real)([lengths.get(dim, dim) for dim in operand.shape], lengths)
            for name, operand in open_operands(nodes)}


def run(program, folder, inputs):
    flags = []
    for key, value in inputs.items():
        np.save(folder / f"{key}.npy", value)
        flags += ["--input", f"{key}={folder / key}.npy"]
    status, _, err = harness.run([program, *flags, "--output-dir", folder / "out"])
    return status, err


def check_request(name, program, session, folder, inputs):
    status, err = run(program, folder, inputs)
    if not harness.check(f"{name}/runs", status == 0, f"exit {status}: {err[-600:]}"):
        return
    for output, wanted in zip(session.get_outputs(), session.run(None, inputs)):
        found = np.load(folder / "out" / f"{output.name}.npy")
        fits = found.shape == wanted.shape
        error = (0 if np.array_equal(found, wanted) else harness.relative_error(found, wanted)) if fits else np.inf
        harness.check(f"{name}/{output.name}", error <= 1e-4, f"{found.shape} {wanted.shape}, error {error:.1e}")


def check_program(name, nodes, folder, *flags, opset=23):
    model, program = folder / "model.onnx", folder / name
    onnx.save(model_of(nodes, opset), model)
    named = {dim for _, operand in open_operands(nodes) for dim in operand.shape}
    dims = [f"--dim={dim}<={bound}" for dim, bound in BOUNDS.items() if dim in named]
    status, _, err = harness.weft("compile", model, *dims, *flags, "-o", program, "--quiet", timeout=300)
    if not harness.check(f"{name}/compiles", status == 0, f"exit {status}: {err[-4000:]}"):
        return
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(model, options, ["CPUExecutionProvider"])
    for request in REQUESTS:
        check_request(f"{name}/{request}", program, session, folder, arrays(nodes, request))
    for lengths, told in WRONG:
        if any(f"'{node.name}'" in told for node in nodes):
            status, err = run(program, folder, arrays(nodes, lengths))
            harness.check(f"{name}/{told}", status == 1 and told in err, f"exit {status}: {err[-400:]}")


def main(parts):
    folder = harness.scratch("open_composites")
    parts = parts or ([""] if harness.FULL else DEFAULT)
    nodes, regions = ([node for node in each if any(part in node.name for part in parts)] for each in (all_nodes(), all_regions()))
    if regions:
        check_program("regions", regions, folder, opset=16)
    if nodes:
        check_program("one_rank", nodes, folder)
    if harness.FULL and nodes:
        check_program("two_ranks", nodes, folder, "--schedule", shared_heads(nodes, folder))


if __name__ == "__main__":
    harness.need_weft()
    main(sys.argv[1:])
