"""Models of one node, with what ONNX Runtime computes from them, as cases of verify_many."""

import collections

import numpy as np
import onnx
import onnxruntime
from onnx import helper

from verify_many import Case

OPSETS = [("", 18), ("ai.onnx.ml", 3), ("com.microsoft", 1)]

# An operand that stands in the model.
Weight = collections.namedtuple("Weight", "array")
# An operand whose first dimension is open: the program is compiled for all lengths up to 8.
Rows = collections.namedtuple("Rows", "array")


def model_of(op, domain, operands, outputs, attrs, opsets=()):
    """`operands`: arrays, Weights, Rows, or None where one is left out. Results have the shapes that the node gives."""
    names = ["" if operand is None else f"x{i}" for i, operand in enumerate(operands)]
    results = [f"y{i}" if name else "" for i, name in enumerate(outputs)]
    node = helper.make_node(op, names, results, name="node", domain=domain, **attrs)
    inputs, weights = [], []
    for name, operand in zip(names, operands):
        if isinstance(operand, Weight):
            weights.append(onnx.numpy_helper.from_array(operand.array, name))
        elif operand is not None:
            shape = array_of(operand).shape
            shape = ["rows", *shape[1:]] if isinstance(operand, Rows) else shape
            dtype = helper.np_dtype_to_tensor_dtype(array_of(operand).dtype)
            inputs.append(helper.make_tensor_value_info(name, dtype, shape))
    values = [helper.make_tensor_value_info(name, dtype, None) for name, dtype in zip(results, outputs) if name]
    graph = helper.make_graph([node], "one_node", inputs, values, weights)
    versions = {**dict(OPSETS), **dict(opsets)}
    return helper.make_model(graph, ir_version=10, opset_imports=[helper.make_opsetid(*v) for v in versions.items()])


def array_of(operand):
    return operand.array if isinstance(operand, Rows) else operand


def feed_of(operands):
    return {f"x{i}": array_of(operand) for i, operand in enumerate(operands)
            if operand is not None and not isinstance(operand, Weight)}


def results_of(model, operands):
    """The results of ONNX Runtime without graph optimizations."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, ["CPUExecutionProvider"])
    return session.run(None, feed_of(operands))


def save(path, array):
    """Strings as the program reads them: of one width."""
    np.save(path, array.astype(str) if array.dtype == object else array)


def write_case(folder, name, op, domain, operands, outputs=(1,), attrs=None, wanted=None, opsets=()):
    """The case, for whose results ONNX Runtime is asked unless `wanted` has them. `outputs`: their ONNX types, 0 for
    one that is left out."""
    model = model_of(op, domain, operands, outputs, attrs or {}, opsets)
    data = folder / name
    data.mkdir(parents=True)
    onnx.save(model, data / "model.onnx")
    for index, array in enumerate(feed_of(operands).values()):
        save(data / f"input_{index}.npy", array)
    for index, array in enumerate(results_of(model, operands) if wanted is None else wanted):
        save(data / f"output_{index}.npy", array)
    flags = "--dim=rows<=8" if any(isinstance(operand, Rows) for operand in operands) else ""
    return Case(name, data / "model.onnx", data, flags)
