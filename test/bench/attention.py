"""./dev bench attention: one layer of attention beside ONNX Runtime, by the length of its sequence: time and memory.

    attention.py [--threads 1,2] [--rounds 9] [--arch x86-64-v3,x86-64-v4]

softmax(q kT / 8) v with heads of 64 numbers, 12 of them for 1024 tokens, 4 for 4096, 1 for 16384: about as much to multiply
for each. The table is that of models.py.
"""

import onnx
from onnx import TensorProto, helper

import models

HEADS = {1024: 12, 4096: 4, 16384: 1}
WIDTH = 64


def attention(tokens):
    nodes = [
        helper.make_node("Transpose", ["k"], ["kt"], perm=[0, 1, 3, 2]),
        helper.make_node("MatMul", ["q", "kt"], ["products"]),
        helper.make_node("Mul", ["products", "scale"], ["scores"]),
        helper.make_node("Softmax", ["scores"], ["shares"]),
        helper.make_node("MatMul", ["shares", "v"], ["y"]),
    ]
    value = lambda name: helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, HEADS[tokens], tokens, WIDTH])
    scale = helper.make_tensor("scale", TensorProto.FLOAT, [], [WIDTH**-0.5])
    graph = helper.make_graph(nodes, "attention", [value(name) for name in "qkv"], [value("y")], [scale])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


if __name__ == "__main__":
    folder = models.FOLDER.parent / "attention"
    folder.mkdir(parents=True, exist_ok=True)
    files = [folder / f"attention_{tokens}.onnx" for tokens in HEADS]
    for tokens, file in zip(HEADS, files):
        onnx.save(attention(tokens), file)
    models.main(files=files)
