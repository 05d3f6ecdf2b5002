"""Writes small transformers as PyTorch's exporters do: BERT-like (an encoder), ViT-like (patches by a convolution, fused
q, k and v), Whisper-like (convolutions over time, an encoder, a decoder with cross-attention).

    transformers.py bert|vit|whisper OUTPUT.onnx [--half]      --half: weights, inputs and results of fp16

Linear layers are MatMul and Add; heads are made by Reshape and Transpose; Gelu by Erf. Shapes are fixed; the weights are
random. The widths make each product more than a million operations.
"""

import argparse
import math
import pathlib
import sys

import numpy as np
import onnx
from onnx import TensorProto, numpy_helper

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent.parent / "samples"))
from model_builder import FLOAT, INT64, ModelBuilder  # noqa: E402

WIDTH, HEADS, LAYERS = 128, 4, 2
HEAD = WIDTH // HEADS


class Transformer(ModelBuilder):
    def linear(self, name, x, inputs, outputs):
        w = self.normal(f"{name}.weight", (inputs, outputs), 0.05)
        return self.node("Add", f"{name}/Add", [self.node("MatMul", f"{name}/MatMul", [x, w]),
                                                 self.normal(f"{name}.bias", (outputs,), 0.02)])

    def norm(self, name, x):
        scale, bias = self.normal(f"{name}.weight", (WIDTH,), 0.02, 1.0), self.normal(f"{name}.bias", (WIDTH,), 0.02)
        return self.node("LayerNormalization", name, [x, scale, bias], axis=-1, epsilon=1e-5)

    def gelu(self, name, x):
        erf = self.node("Erf", f"{name}/Erf", [self.node("Div", f"{name}/Div", [x, self.number(name, "root", math.sqrt(2))])])
        gate = self.node("Mul", f"{name}/Mul", [x, self.node("Add", f"{name}/Add", [erf, self.number(name, "one", 1.0)])])
        return self.node("Mul", f"{name}/Mul_1", [gate, self.number(name, "half", 0.5)])

    def number(self, name, role, value):
        return self.constant(f"{name}/{role}", value, np.float32)

    def heads(self, name, x, rows, order):
        shape = self.constant(f"{name}/shape", [1, rows, HEADS, HEAD], np.int64)
        split = self.node("Reshape", f"{name}/Reshape", [x, shape])
        return self.node("Transpose", f"{name}/Transpose", [split], perm=order)

    def attend(self, name, q, k, v, rows):
        """q and v are [1, heads, rows, head], k is [1, heads, head, rows]."""
        scores = self.node("MatMul", f"{name}/MatMul", [q, k])
        scores = self.node("Div", f"{name}/Div", [scores, self.number(name, "scale", math.sqrt(HEAD))])
        context = self.node("MatMul", f"{name}/MatMul_1", [self.node("Softmax", f"{name}/Softmax", [scores], axis=-1), v])
        context = self.node("Transpose", f"{name}/Transpose_3", [context], perm=[0, 2, 1, 3])
        joined = self.constant(f"{name}/joined", [1, rows, WIDTH], np.int64)
        return self.linear(f"{name}/out", self.node("Reshape", f"{name}/Reshape_3", [context, joined]), WIDTH, WIDTH)

    def attention(self, name, x, rows, source=None, source_rows=None):
        source, source_rows = source or x, source_rows or rows
        q = self.heads(f"{name}/q", self.linear(f"{name}/query", x, WIDTH, WIDTH), rows, [0, 2, 1, 3])
        k = self.heads(f"{name}/k", self.linear(f"{name}/key", source, WIDTH, WIDTH), source_rows, [0, 2, 3, 1])
        v = self.heads(f"{name}/v", self.linear(f"{name}/value", source, WIDTH, WIDTH), source_rows, [0, 2, 1, 3])
        return self.attend(name, q, k, v, rows)

    def fused_attention(self, name, x, rows):
        """One product makes q, k and v, which a Transpose and three Gathers take apart, as in timm."""
        shape = self.constant(f"{name}/shape", [1, rows, 3, HEADS, HEAD], np.int64)
        split = self.node("Reshape", f"{name}/Reshape", [self.linear(f"{name}/qkv", x, WIDTH, 3 * WIDTH), shape])
        moved = self.node("Transpose", f"{name}/Transpose", [split], perm=[2, 0, 3, 1, 4])
        q, k, v = (self.node("Gather", f"{name}/Gather_{i}", [moved, self.constant(f"{name}/{i}", i, np.int64)], axis=0)
                   for i in range(3))
        return self.attend(name, q, self.node("Transpose", f"{name}/Transpose_1", [k], perm=[0, 1, 3, 2]), v, rows)

    def residual(self, name, x, y):
        return self.node("Add", name, [x, y])

    def mlp(self, name, x):
        h = self.gelu(f"{name}/act", self.linear(f"{name}/fc1", x, WIDTH, 4 * WIDTH))
        return self.linear(f"{name}/fc2", h, 4 * WIDTH, WIDTH)

    def bert(self):
        rows, words = 64, 500
        x = self.node("Gather", "embed", [self.normal("embed.weight", (words, WIDTH), 0.5), "ids"])
        for i in range(LAYERS):
            x = self.norm(f"{i}/norm1", self.residual(f"{i}/add1", x, self.attention(f"{i}/attn", x, rows)))
            x = self.norm(f"{i}/norm2", self.residual(f"{i}/add2", x, self.mlp(f"{i}/mlp", x)))
        self.node("Identity", "y", [x])
        return self.model("bert", [("ids", INT64, [1, rows])], [("y", FLOAT, [1, rows, WIDTH])], 17)

    def vit(self):
        side, patch = 64, 8
        rows = (side // patch) ** 2
        w = self.normal("patch.weight", (WIDTH, 3, patch, patch), 0.05)
        x = self.node("Conv", "patch", ["image", w, self.normal("patch.bias", (WIDTH,), 0.02)],
                      kernel_shape=[patch] * 2, strides=[patch] * 2)
        x = self.node("Reshape", "flat", [x, self.constant("flat/shape", [1, WIDTH, rows], np.int64)])
        x = self.node("Transpose", "tokens", [x], perm=[0, 2, 1])
        for i in range(LAYERS):
            x = self.residual(f"{i}/add1", x, self.fused_attention(f"{i}/attn", self.norm(f"{i}/norm1", x), rows))
            x = self.residual(f"{i}/add2", x, self.mlp(f"{i}/mlp", self.norm(f"{i}/norm2", x)))
        self.node("Identity", "y", [x])
        return self.model("vit", [("image", FLOAT, [1, 3, side, side])], [("y", FLOAT, [1, rows, WIDTH])], 17)

    def whisper(self):
        bands, frames, rows = 32, 128, 48
        x = "mel"
        for name, channels, stride in (("conv1", bands, 1), ("conv2", WIDTH, 2)):
            w = self.normal(f"{name}.weight", (WIDTH, channels, 3), 0.05)
            x = self.node("Conv", name, [x, w, self.normal(f"{name}.bias", (WIDTH,), 0.02)], kernel_shape=[3], pads=[1, 1],
                          strides=[stride])
            x = self.gelu(f"{name}/act", x)
        heard = self.node("Transpose", "frames", [x], perm=[0, 2, 1])
        for i in range(LAYERS):
            normed = self.norm(f"enc{i}/norm1", heard)
            heard = self.residual(f"enc{i}/add1", heard, self.attention(f"enc{i}/attn", normed, frames // 2))
            heard = self.residual(f"enc{i}/add2", heard, self.mlp(f"enc{i}/mlp", self.norm(f"enc{i}/norm2", heard)))
        x = self.node("Gather", "embed", [self.normal("embed.weight", (500, WIDTH), 0.5), "ids"])
        for i in range(LAYERS):
            x = self.residual(f"dec{i}/add1", x, self.attention(f"dec{i}/attn", self.norm(f"dec{i}/norm1", x), rows))
            cross = self.attention(f"dec{i}/cross", self.norm(f"dec{i}/norm2", x), rows, heard, frames // 2)
            x = self.residual(f"dec{i}/add2", x, cross)
            x = self.residual(f"dec{i}/add3", x, self.mlp(f"dec{i}/mlp", self.norm(f"dec{i}/norm3", x)))
        self.node("Identity", "y", [x])
        inputs = [("mel", FLOAT, [1, bands, frames]), ("ids", INT64, [1, rows])]
        return self.model("whisper", inputs, [("y", FLOAT, [1, rows, WIDTH])], 17)


def halved_tensor(tensor):
    if tensor.data_type == FLOAT:
        largest = np.finfo(np.float16).max
        array = np.clip(numpy_helper.to_array(tensor), -largest, largest).astype(np.float16)
        tensor.CopyFrom(numpy_helper.from_array(array, tensor.name))


def halve(model):
    """All floats become fp16: weights, constants, inputs, results and what Cast makes."""
    for tensor in model.graph.initializer:
        halved_tensor(tensor)
    for node in model.graph.node:
        for attribute in node.attribute:
            if attribute.type == onnx.AttributeProto.TENSOR:
                halved_tensor(attribute.t)
            if node.op_type == "Cast" and attribute.name == "to" and attribute.i == FLOAT:
                attribute.i = TensorProto.FLOAT16
    for value in [*model.graph.input, *model.graph.output, *model.graph.value_info]:
        if value.type.tensor_type.elem_type == FLOAT:
            value.type.tensor_type.elem_type = TensorProto.FLOAT16
    return model


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("kind", choices=["bert", "vit", "whisper"])
    parser.add_argument("output")
    parser.add_argument("--half", action="store_true")
    options = parser.parse_args()
    made = getattr(Transformer(), options.kind)()
    onnx.save(halve(made) if options.half else made, options.output)
