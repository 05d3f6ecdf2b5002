"""A decoder of one GroupQueryAttention, with the names of inputs and dims that exports for ONNX Runtime's generate API have: the lengths of
its texts come from a mask."""

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

WIDTH, VOCABULARY, ROWS = 64, 101, 128


def weights():
    random = np.random.default_rng(3)
    shapes = {"embedding": (VOCABULARY, WIDTH), "q_proj": (WIDTH, 64), "k_proj": (WIDTH, 32), "v_proj": (WIDTH, 32),
              "o_proj": (64, WIDTH), "head": (WIDTH, VOCABULARY), "cos": (ROWS, 8), "sin": (ROWS, 8)}
    made = {name: (0.6 * random.standard_normal(shape)).astype(np.float32) for name, shape in shapes.items()}
    return made | {"axis": np.array([1]), "one": np.array(1)}


def nodes():
    """4 heads of 16, of keys 2."""
    node = helper.make_node
    past, present = (["past_key_values.0.key", "past_key_values.0.value"], ["present.0.key", "present.0.value"])
    yield node("Gather", ["embedding", "input_ids"], ["x"])
    for name in "qkv":
        yield node("MatMul", ["x", f"{name}_proj"], [name])
    yield node("ReduceSum", ["attention_mask", "axis"], ["counts"])
    yield node("Sub", ["counts", "one"], ["last"])
    yield node("Cast", ["last"], ["seqlens"], to=TensorProto.INT32)
    yield node("Shape", ["attention_mask"], ["mask_shape"])
    yield node("Gather", ["mask_shape", "one"], ["columns"])
    yield node("Cast", ["columns"], ["total"], to=TensorProto.INT32)
    yield node("GroupQueryAttention", [*"qkv", *past, "seqlens", "total", "cos", "sin"], ["mixed", *present], domain="com.microsoft",
               num_heads=4, kv_num_heads=2, do_rotary=1)
    yield node("MatMul", ["mixed", "o_proj"], ["joined"])
    yield node("Add", ["joined", "x"], ["residual"])
    yield node("MatMul", ["residual", "head"], ["logits"])


def write(path):
    value = helper.make_tensor_value_info
    total = "total_sequence_length"
    caches = {name: [value(f"{name}.0.{part}", TensorProto.FLOAT, ["batch", 2, length, 16]) for part in ("key", "value")]
              for name, length in (("past_key_values", "past"), ("present", total))}
    inputs = [value("input_ids", TensorProto.INT64, ["batch", "seq"]), value("attention_mask", TensorProto.INT64, ["batch", total])]
    graph = helper.make_graph(list(nodes()), "decoder", inputs + caches["past_key_values"],
                              [value("logits", TensorProto.FLOAT, ["batch", "seq", VOCABULARY]), *caches["present"]],
                              [numpy_helper.from_array(array, name) for name, array in weights().items()])
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=8), path)
    return path
