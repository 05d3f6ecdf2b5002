"""Models for `./dev bench models` that no exporter writes: a quantized ResNet-18, a tree ensemble, and a decoder's step with
weights of 4 bits."""

import numpy as np
import onnx
from onnx import helper, numpy_helper

from qdq_cnn import QuantizedResNet
from trees import ensemble

BLOCK = 32  # weights that share a scale
ROWS = 1000  # of the tree ensemble's request


def of_trees():
    model = ensemble(6, 0.0)
    for value in (*model.graph.input, *model.graph.output):
        value.type.tensor_type.shape.dim[0].dim_value = ROWS
    return model


def in_four_bits(weight):
    """Columns of a product's weight [k, n] as MatMulNBits reads them, and the scale of each block; 8 stands for 0."""
    blocks = weight.T.reshape(weight.shape[1], -1, BLOCK)
    scales = np.maximum(np.abs(blocks).max(2) / 7, 1e-12).astype(np.float32)
    numbers = (np.clip(np.rint(blocks / scales[..., None]), -8, 7) + 8).astype(np.uint8)
    return numbers[..., 0::2] | numbers[..., 1::2] << 4, scales


def with_four_bits(path):
    """The model with MatMulNBits for each MatMul with a constant."""
    model = onnx.load(path)
    graph, constants = model.graph, {each.name: each for each in model.graph.initializer}
    for number, node in enumerate(graph.node):
        if node.op_type != "MatMul" or node.input[1] not in constants:
            continue
        weight = numpy_helper.to_array(constants[node.input[1]])
        packed, scales = in_four_bits(weight)
        names = [f"{node.input[1]}.packed", f"{node.input[1]}.scales"]
        graph.initializer.extend(numpy_helper.from_array(array, name) for array, name in zip((packed, scales.reshape(-1)), names))
        graph.initializer.remove(constants[node.input[1]])
        sizes = {"K": weight.shape[0], "N": weight.shape[1], "bits": 4, "block_size": BLOCK}
        graph.node[number].CopyFrom(helper.make_node("MatMulNBits", [node.input[0], *names], node.output, node.name,
                                                     domain="com.microsoft", **sizes))
    model.opset_import.append(helper.make_opsetid("com.microsoft", 1))
    return model


def write_converted(folder):
    onnx.save(QuantizedResNet().model(), folder / "qdq_resnet18.onnx")
    onnx.save(of_trees(), folder / "trees.onnx")
    onnx.save(with_four_bits(folder / "llama_token.onnx"), folder / "llama_token_int4.onnx")
