# test: slow
"""Operators of opsets 24 to 28 in every element type that these list: one program, with a node for each operator and type,
gives what ONNX's reference gives. Arrays go in and out as f32 and i64, and are cast beside each node."""

import collections

import numpy as np
import onnx
from onnx import helper
from onnx.reference import ReferenceEvaluator

import harness

TYPES = onnx.TensorProto.DataType
FLOATS = {"float": 1e-4, "double": 1e-4, "float16": 5e-3, "bfloat16": 2e-2}  # with the error that is allowed
INTEGERS = ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"]
HEADS = {"q_num_heads": 2, "kv_num_heads": 2}

# Operands are x, y [3, 4], q, k, v [2, 3, 4], f [4, 1, 2] and w [2] of the row's type, or constants.
Row = collections.namedtuple("Row", "name op operands attrs", defaults=({},))
OF_FLOATS = [Row("mod", "Mod", "x y"), Row("fmod", "Mod", "x y", {"fmod": 1}), Row("celu", "Celu", "x", {"alpha": 0.5}),
             Row("swish", "Swish", "x", {"alpha": 1.5}), Row("swiglu", "SwiGLU", "x y", {"alpha": 1.5}),
             Row("log_sum", "ReduceLogSum", "f rest", {"keepdims": 0}), Row("log_sum_exp", "ReduceLogSumExp", "x last"),
             Row("einsum", "Einsum", "x y", {"equation": "ij, kj -> ik"}), Row("cum_prod", "CumProd", "x one"),
             Row("window", "Attention", "q k v", {**HEADS, "left_window_size": 1, "right_window_size": 1}),
             Row("blind", "Attention", "q k2 v2", {**HEADS, "left_window_size": 0}),
             Row("bool_mask", "Attention", "q k v mask", {**HEADS, "is_causal": 1})]
OF_STATES = [Row("linear_attention", "LinearAttention", "q k v", {**HEADS, "update_rule": "linear"}),
             Row("causal_conv", "CausalConvWithState", "q3 f", {"activation": "silu"})]
OF_INTEGERS = [Row("mod", "Mod", "x y"), Row("fmod", "Mod", "x y", {"fmod": 1}), Row("left", "BitShift", "x y", {"direction": "LEFT"}),
               Row("right", "BitShift", "x y", {"direction": "RIGHT"})]
OF_ALL = [Row("compress", "Compress", "x some", {"axis": 0}), Row("one_hot", "OneHot", "at depth w"),
          Row("reverse", "ReverseSequence", "x lengths", {"batch_axis": 0, "time_axis": 1}), Row("unique", "Unique", "x", {"axis": 0})]
MIXED = [Row("mask", "Attention", "float_q float_k float_v m", HEADS), Row("values", "Attention", "float_q float_k v", HEADS)]
SIXES = ["float6e2m3", "float6e3m2"]
RANGES = ["float", "double", "int16", "int32", "int64", "float16", "bfloat16"]
CONSTANTS = {"last": np.array([1]), "rest": np.array([1, 2]), "one": np.array(1), "depth": np.array(3), "at": np.array([0, 2, 1]),
             "lengths": np.array([2, 4, 1]), "some": np.array([True, False, True]),
             "mask": np.array([[1, 0, 1], [0, 0, 0], [1, 1, 0]], bool)}
RESULTS = {"LinearAttention": 2, "CausalConvWithState": 2}
random = np.random.default_rng(8)


def code(type_):
    return TYPES.Value(type_.upper())


def rows():
    """(row, type, with its name)"""
    for type_ in (*FLOATS, *INTEGERS):
        own = OF_ALL + (OF_FLOATS if type_ in FLOATS else OF_INTEGERS) + (OF_STATES if type_ in FLOATS and type_ != "double" else [])
        own += [row for row in MIXED if type_ != "float" and (type_ in FLOATS or row.name == "mask")]
        for row in own:
            yield row._replace(name=f"{row.name}_{type_}"), type_


def operands_of(type_):
    """Numbers that the type holds: of both signs where it has them, and no divisor of 0."""
    if type_ in FLOATS:
        x, y = random.integers(-12, 13, (3, 4)) / 4, random.integers(1, 9, (3, 4)) / 4
        y *= np.where(random.integers(0, 2, (3, 4)), 1, -1)
    else:
        x, y = random.integers(0, 100, (3, 4)), random.integers(1, 5, (3, 4))
        x = x if type_.startswith("u") else x - 50
    sequences = {name: random.uniform(-1, 1, (2, 3, 4)) for name in ("q", "k", "v")}
    return {"x": x, "y": y, "f": random.uniform(0, 1, (4, 1, 2)), "m": random.integers(0, 4, (3, 3)), "w": np.array([1, 3]),
            "q3": random.uniform(-1, 1, (2, 4, 3)), "k2": random.uniform(-1, 1, (2, 1, 4)), "v2": random.uniform(-1, 1, (2, 1, 4)),
            **sequences}


def wide(type_):
    return "float" if type_ in FLOATS else "int64"


SIX_BIT_RESULTS = ["cast", "quantized", "packed", "each"]


def six_bit_nodes(type_):
    """There and back by Cast, and by QuantizeLinear; constants whose elements lie packed, and each on its own."""
    return [helper.make_node("Cast", ["float_x"], [f"{type_}_x"], to=code(type_)),
            helper.make_node("Cast", [f"{type_}_x"], [f"cast_{type_}"], to=TYPES.FLOAT),
            helper.make_node("QuantizeLinear", ["float_x", "scale"], [f"{type_}_q"], output_dtype=code(type_)),
            helper.make_node("DequantizeLinear", [f"{type_}_q", "scale"], [f"quantized_{type_}"]),
            *[helper.make_node("Cast", [f"{type_}_{name}"], [f"{name}_{type_}"], to=TYPES.FLOAT) for name in ("packed", "each")]]


def six_bit_weights(type_):
    dtype = helper.tensor_dtype_to_np_dtype(code(type_))
    numbers = np.array([0.5, -3, 7.5, 1.25, -0.125], np.float32).astype(dtype)
    packed = onnx.numpy_helper.from_array(numbers, f"{type_}_packed")
    return [packed, helper.make_tensor(f"{type_}_each", code(type_), [5], numbers)]


def model_of(rows_):
    """The model and its inputs."""
    infos, given, nodes, outputs = [], {}, [], []
    for type_ in (*FLOATS, *INTEGERS):
        for name, array in operands_of(type_).items():
            key = f"{type_}_{name}"
            given[f"{key}_in"] = np.asarray(array).astype(np.float32 if type_ in FLOATS else np.int64)
            infos.append(helper.make_tensor_value_info(f"{key}_in", code(wide(type_)), array.shape))
            nodes.append(helper.make_node("Cast", [f"{key}_in"], [key], to=code(type_)))
    for row, type_ in rows_:
        operands = [name if name in CONSTANTS or "_" in name else f"{type_}_{name}" for name in row.operands.split()]
        results = [f"{row.name}_{i}" for i in range(RESULTS.get(row.op, 1))]
        shown = "float" if row.op == "Attention" else wide(type_)
        nodes += [helper.make_node(row.op, operands, results, name=row.name, **row.attrs),
                  helper.make_node("Cast", results[:1], [row.name], to=code(shown))]
        outputs.append(helper.make_tensor_value_info(row.name, code(shown), None))
    weights = [helper.make_tensor("scale", TYPES.FLOAT, [], [0.25])]
    weights += [onnx.numpy_helper.from_array(value, name) for name, value in CONSTANTS.items()]
    for type_ in RANGES:
        bounds = [f"{type_}_from", f"{type_}_to", f"{type_}_by"]
        weights += [helper.make_tensor(name, code(type_), [], [value]) for name, value in zip(bounds, (3, 300, 7))]
        nodes += [helper.make_node("Range", bounds, [f"range_{type_}_0"], stash_type=11), helper.make_node(
            "Cast", [f"range_{type_}_0"], [f"range_{type_}"], to=code(wide(type_)))]
        outputs.append(helper.make_tensor_value_info(f"range_{type_}", code(wide(type_)), None))
    for type_ in SIXES:
        nodes += six_bit_nodes(type_)
        weights += six_bit_weights(type_)
        outputs += [helper.make_tensor_value_info(f"{name}_{type_}", TYPES.FLOAT, None) for name in SIX_BIT_RESULTS]
    graph = helper.make_graph(nodes, "types", infos, outputs, weights)
    return helper.make_model(graph, ir_version=13, opset_imports=[helper.make_opsetid("", 28)]), given


def difference(found, wanted, allowed):
    if found.shape != wanted.shape:
        return f"{found.shape}, not {wanted.shape}"
    if wanted.dtype.kind != "f":
        return "" if np.array_equal(found, wanted) else f"{found.tolist()}, not {wanted.tolist()}"
    error = harness.relative_error(found, wanted)
    return "" if error <= allowed else f"error {error:.1e}"


def main():
    folder, made = harness.scratch("opset28_types"), list(rows())
    model, inputs = model_of(made)
    onnx.save(model, folder / "model.onnx")
    status, _, err = harness.weft("compile", folder / "model.onnx", "-o", folder / "program")
    if not harness.check("compiles", status == 0, f"exit {status}: {err[-900:]}"):
        return
    flags = []
    for key, value in inputs.items():
        np.save(folder / f"{key}.npy", value)
        flags += ["--input", f"{key}={folder / key}.npy"]
    status, _, err = harness.run([folder / "program", *flags, "--output-dir", folder / "out"])
    if not harness.check("runs", status == 0, f"exit {status}: {err[-600:]}"):
        return
    types = {row.name: type_ for row, type_ in made} | {f"range_{type_}": type_ for type_ in RANGES}
    types |= {f"{name}_{type_}": "float" for name in SIX_BIT_RESULTS for type_ in SIXES}
    reference = ReferenceEvaluator(model)
    for name, wanted in zip(reference.output_names, reference.run(None, inputs)):
        allowed = FLOATS["float"] if name.startswith("mask") else FLOATS.get(types[name], 0)
        wrong = difference(np.load(folder / "out" / f"{name}.npy"), wanted, allowed)
        harness.check(name, not wrong, wrong)


harness.need_weft()
main()
