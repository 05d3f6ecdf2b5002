"""./dev bench few_bits: products with weights of 4 and 8 bits beside ONNX Runtime's MatMulNBits.

    few_bits.py [--threads 1,2] [--rounds 9] [--arch x86-64-v3,x86-64-v4]

A feed-forward layer as decoders have them, 2048 numbers wide and 5632 inside, weights in blocks of 32, for some rows. Where the name ends
in `int8`, the model lets its runtime round the first operand to 8 bits (accuracy_level 4): ONNX Runtime does so, Weft does not.
The table is that of models.py.
"""

import itertools

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

import models

WIDTH, INSIDE, BLOCK = 2048, 5632, 32
LEVELS = {"": 0, "_int8": 4}


def product(name, operand, columns, steps, bits, level):
    """The node and its weights."""
    random = np.random.default_rng(len(name))
    packed = random.integers(0, 256, (columns, steps // BLOCK, BLOCK * bits // 8), np.uint8)
    scales = (random.random(columns * steps // BLOCK) * 0.01 / steps**0.5).astype(np.float32)
    weights = [numpy_helper.from_array(packed, f"{name}.weight"), numpy_helper.from_array(scales, f"{name}.scales")]
    attributes = {"N": columns, "K": steps, "bits": bits, "block_size": BLOCK, "accuracy_level": level}
    inputs = [operand, *(weight.name for weight in weights)]
    return helper.make_node("MatMulNBits", inputs, [name], name, domain="com.microsoft", **attributes), weights


def layer(rows, bits, level):
    gate, gate_weights = product("gate", "x", INSIDE, WIDTH, bits, level)
    up, up_weights = product("up", "x", INSIDE, WIDTH, bits, level)
    down, down_weights = product("down", "h", WIDTH, INSIDE, bits, level)
    activation = [helper.make_node("Sigmoid", ["gate"], ["s"]), helper.make_node("Mul", ["gate", "s"], ["silu"]),
                  helper.make_node("Mul", ["silu", "up"], ["h"])]
    value = lambda name: helper.make_tensor_value_info(name, TensorProto.FLOAT, [rows, WIDTH])
    graph = helper.make_graph([gate, up, *activation, down], "layer", [value("x")], [value("down")],
                              [*gate_weights, *up_weights, *down_weights])
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8)


if __name__ == "__main__":
    folder = models.FOLDER.parent / "few_bits"
    folder.mkdir(parents=True, exist_ok=True)
    files = []
    for bits, rows, level in itertools.product((4, 8), (1, 16, 128), LEVELS):
        files.append(folder / f"bits{bits}_rows{rows}{level}.onnx")
        onnx.save(layer(rows, bits, LEVELS[level]), files[-1])
    models.main(files=files)
