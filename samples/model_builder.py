"""A few lines over onnx.helper with which the sample and test models are written."""

import os
import pathlib

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

EXTERNAL_DATA_FROM_BYTES = 1_500_000_000  # protobuf itself ends at 2 GB


class ModelBuilder:
    """Collects nodes and initialisers in order. A node with one result gives it its own name."""

    def __init__(self, seed=0):
        self.random = np.random.default_rng(seed)
        self.nodes = []
        self.initializers = []
        self.weight_names = set()

    def node(self, op, name, inputs, outputs=None, **attributes):
        """Adds a node; returns its result, or the list of its results if they were named."""
        results = outputs or [name]
        self.nodes.append(helper.make_node(op, inputs, results, name=name, **attributes))
        return outputs or name

    def weight(self, name, array):
        """Adds an initialiser once; a second call with the same name refers to the first."""
        if name not in self.weight_names:
            self.weight_names.add(name)
            self.initializers.append(numpy_helper.from_array(np.ascontiguousarray(array), name))
        return name

    def normal(self, name, shape, deviation, mean=0.0):
        if name in self.weight_names:
            return name
        return self.weight(name, (self.random.standard_normal(shape) * deviation + mean).astype(np.float32))

    def constant(self, name, value, dtype):
        """A Constant node, as exporters write scalars and shapes."""
        array = np.asarray(value, dtype=dtype)
        return self.node("Constant", name, [], value=numpy_helper.from_array(array, name + ".value"))

    def extent(self, name, value, axis):
        """The run-time length of an axis, as a vector of one element."""
        shape = self.node("Shape", f"{name}.shape", [value])
        length = self.node("Gather", f"{name}.length", [shape, self.constant(f"{name}.axis", axis, np.int64)], axis=0)
        return self.node("Unsqueeze", f"{name}.unsqueezed", [length, self.constant(f"{name}.zero", [0], np.int64)])

    def model(self, graph_name, inputs, outputs, opset):
        """inputs and outputs: rows of (name, onnx dtype, shape); a str in a shape is a symbolic dim."""
        graph = helper.make_graph(
            self.nodes, graph_name,
            [helper.make_tensor_value_info(*row) for row in inputs],
            [helper.make_tensor_value_info(*row) for row in outputs],
            self.initializers)
        ir_version = 8 if opset <= 18 else 10
        return helper.make_model(
            graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=ir_version, producer_name="weft samples")


def save(model, path, external=False):
    """Writes the model; weights go to PATH.data beside it where they are too large for one file."""
    path = pathlib.Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    weights = sum(len(tensor.raw_data) for tensor in model.graph.initializer)
    if external or weights > EXTERNAL_DATA_FROM_BYTES:
        data = path.name + ".data"
        if (path.parent / data).exists():
            os.remove(path.parent / data)  # onnx.save appends
        onnx.save(model, path, save_as_external_data=True, location=data, size_threshold=1024)
    else:
        onnx.save(model, path)
    onnx.checker.check_model(str(path), full_check=True)


INT64, FLOAT, BOOL = TensorProto.INT64, TensorProto.FLOAT, TensorProto.BOOL
