"""Writes small transformers as PyTorch's exporters do: BERT-like (an encoder), ViT-like (patches by a convolution, fused
q, k and v), Whisper-like (convolutions over time, an encoder, a decoder with cross-attention), T5-like (an encoder and a
decoder of words, whose scores have a bias by how far two words are apart).

    transformers.py bert|vit|whisper|t5 OUTPUT.onnx [--half] [--open]

--half: weights, inputs and results of fp16. --open: dimensions `batch`, and `seq` and `dec` of words, have no number.
Linear layers are MatMul and Add; heads are made by Reshape and Transpose; Gelu by Erf. The weights are random. The widths
make each product more than a million operations.
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

WORDS, DISTANCES = 500, 32
FIXED = {"batch": 1, "seq": 64, "dec": 48}


class Transformer(ModelBuilder):
    def __init__(self, width=128, heads=4, layers=2, is_open=False):
        super().__init__()
        self.width, self.head_count, self.layers, self.is_open = width, heads, layers, is_open

    def linear(self, name, x, inputs, outputs):
        w = self.normal(f"{name}.weight", (inputs, outputs), 0.05)
        return self.node("Add", f"{name}/Add", [self.node("MatMul", f"{name}/MatMul", [x, w]),
                                                 self.normal(f"{name}.bias", (outputs,), 0.02)])

    def norm(self, name, x):
        scale, bias = self.normal(f"{name}.weight", (self.width,), 0.02, 1.0), self.normal(f"{name}.bias", (self.width,), 0.02)
        return self.node("LayerNormalization", name, [x, scale, bias], axis=-1, epsilon=1e-5)

    def gelu(self, name, x):
        erf = self.node("Erf", f"{name}/Erf", [self.node("Div", f"{name}/Div", [x, self.number(name, "root", math.sqrt(2))])])
        gate = self.node("Mul", f"{name}/Mul", [x, self.node("Add", f"{name}/Add", [erf, self.number(name, "one", 1.0)])])
        return self.node("Mul", f"{name}/Mul_1", [gate, self.number(name, "half", 0.5)])

    def number(self, name, role, value):
        return self.constant(f"{name}/{role}", value, np.float32)

    def heads(self, name, x, order):
        shape = self.constant(f"{name}/shape", [0, 0, self.head_count, self.width // self.head_count], np.int64)
        split = self.node("Reshape", f"{name}/Reshape", [x, shape])
        return self.node("Transpose", f"{name}/Transpose", [split], perm=order)

    def attend(self, name, q, k, v, bias=None):
        """q and v are [batch, heads, rows, head], k is [batch, heads, head, rows]."""
        scores = self.node("MatMul", f"{name}/MatMul", [q, k])
        root = math.sqrt(self.width // self.head_count)
        scores = self.node("Div", f"{name}/Div", [scores, self.number(name, "scale", root)])
        scores = self.node("Add", f"{name}/Add", [scores, bias]) if bias else scores
        context = self.node("MatMul", f"{name}/MatMul_1", [self.node("Softmax", f"{name}/Softmax", [scores], axis=-1), v])
        context = self.node("Transpose", f"{name}/Transpose_3", [context], perm=[0, 2, 1, 3])
        joined = self.constant(f"{name}/joined", [0, 0, self.width], np.int64)
        return self.linear(f"{name}/out", self.node("Reshape", f"{name}/Reshape_3", [context, joined]), self.width, self.width)

    def attention(self, name, x, source=None, bias=None):
        source = source or x
        q = self.heads(f"{name}/q", self.linear(f"{name}/query", x, self.width, self.width), [0, 2, 1, 3])
        k = self.heads(f"{name}/k", self.linear(f"{name}/key", source, self.width, self.width), [0, 2, 3, 1])
        v = self.heads(f"{name}/v", self.linear(f"{name}/value", source, self.width, self.width), [0, 2, 1, 3])
        return self.attend(name, q, k, v, bias)

    def distances(self, name, x):
        """[1, heads, rows, rows]: a learnt number for how far two rows of x are apart, with a largest distance."""
        rows = self.node("Gather", f"{name}/rows", [self.node("Shape", f"{name}/Shape", [x]), self.whole(name, "axis", 1)])
        places = self.node("Range", f"{name}/Range", [self.whole(name, "first", 0), rows, self.whole(name, "step", 1)])
        row, column = (self.node("Unsqueeze", f"{name}/Unsqueeze_{d}", [places, self.whole(name, f"at_{d}", [d])]) for d in (1, 0))
        apart = self.node("Abs", f"{name}/Abs", [self.node("Sub", f"{name}/Sub", [column, row])])
        bucket = self.node("Min", f"{name}/Min", [apart, self.whole(name, "most", DISTANCES - 1)])
        table = self.normal(f"{name}.weight", (DISTANCES, self.head_count), 0.5)
        learnt = self.node("Transpose", f"{name}/Transpose", [self.node("Gather", f"{name}/Gather", [table, bucket])], perm=[2, 0, 1])
        return self.node("Unsqueeze", f"{name}/bias", [learnt, self.whole(name, "batch", [0])])

    def whole(self, name, role, value):
        return self.constant(f"{name}/{role}", value, np.int64)

    def fused_attention(self, name, x):
        """One product makes q, k and v, which a Transpose and three Gathers take apart, as in timm."""
        shape = self.constant(f"{name}/shape", [0, 0, 3, self.head_count, self.width // self.head_count], np.int64)
        split = self.node("Reshape", f"{name}/Reshape", [self.linear(f"{name}/qkv", x, self.width, 3 * self.width), shape])
        moved = self.node("Transpose", f"{name}/Transpose", [split], perm=[2, 0, 3, 1, 4])
        q, k, v = (self.node("Gather", f"{name}/Gather_{i}", [moved, self.constant(f"{name}/{i}", i, np.int64)], axis=0)
                   for i in range(3))
        return self.attend(name, q, self.node("Transpose", f"{name}/Transpose_1", [k], perm=[0, 1, 3, 2]), v)

    def residual(self, name, x, y):
        return self.node("Add", name, [x, y])

    def mlp(self, name, x):
        h = self.gelu(f"{name}/act", self.linear(f"{name}/fc1", x, self.width, 4 * self.width))
        return self.linear(f"{name}/fc2", h, 4 * self.width, self.width)

    def embed(self, ids):
        return self.node("Gather", f"embed/{ids}", [self.normal("embed.weight", (WORDS, self.width), 0.5), ids])

    def bert(self):
        x = self.embed("ids")
        for i in range(self.layers):
            x = self.norm(f"{i}/norm1", self.residual(f"{i}/add1", x, self.attention(f"{i}/attn", x)))
            x = self.norm(f"{i}/norm2", self.residual(f"{i}/add2", x, self.mlp(f"{i}/mlp", x)))
        return self.made("bert", [("ids", INT64, ["batch", "seq"])], x, "seq")

    def vit(self):
        side, patch = 64, 8
        w = self.normal("patch.weight", (self.width, 3, patch, patch), 0.05)
        x = self.node("Conv", "patch", ["image", w, self.normal("patch.bias", (self.width,), 0.02)],
                      kernel_shape=[patch] * 2, strides=[patch] * 2)
        x = self.node("Reshape", "flat", [x, self.constant("flat/shape", [0, self.width, -1], np.int64)])
        x = self.node("Transpose", "tokens", [x], perm=[0, 2, 1])
        for i in range(self.layers):
            x = self.residual(f"{i}/add1", x, self.fused_attention(f"{i}/attn", self.norm(f"{i}/norm1", x)))
            x = self.residual(f"{i}/add2", x, self.mlp(f"{i}/mlp", self.norm(f"{i}/norm2", x)))
        return self.made("vit", [("image", FLOAT, ["batch", 3, side, side])], x, (side // patch) ** 2)

    def encoder(self, x, bias=None):
        for i in range(self.layers):
            x = self.residual(f"enc{i}/add1", x, self.attention(f"enc{i}/attn", self.norm(f"enc{i}/norm1", x), bias=bias))
            x = self.residual(f"enc{i}/add2", x, self.mlp(f"enc{i}/mlp", self.norm(f"enc{i}/norm2", x)))
        return x

    def decoder(self, x, source, bias=None):
        for i in range(self.layers):
            x = self.residual(f"dec{i}/add1", x, self.attention(f"dec{i}/attn", self.norm(f"dec{i}/norm1", x), bias=bias))
            x = self.residual(f"dec{i}/add2", x, self.attention(f"dec{i}/cross", self.norm(f"dec{i}/norm2", x), source))
            x = self.residual(f"dec{i}/add3", x, self.mlp(f"dec{i}/mlp", self.norm(f"dec{i}/norm3", x)))
        return x

    def whisper(self):
        bands, frames = 32, 128
        x = "mel"
        for name, channels, stride in (("conv1", bands, 1), ("conv2", self.width, 2)):
            w = self.normal(f"{name}.weight", (self.width, channels, 3), 0.05)
            x = self.node("Conv", name, [x, w, self.normal(f"{name}.bias", (self.width,), 0.02)], kernel_shape=[3], pads=[1, 1],
                          strides=[stride])
            x = self.gelu(f"{name}/act", x)
        heard = self.encoder(self.node("Transpose", "frames", [x], perm=[0, 2, 1]))
        x = self.decoder(self.embed("ids"), heard)
        return self.made("whisper", [("mel", FLOAT, ["batch", bands, frames]), ("ids", INT64, ["batch", "dec"])], x, "dec")

    def t5(self):
        read, written = self.embed("ids"), self.embed("written")
        source = self.encoder(read, self.distances("enc/distances", read))
        x = self.decoder(written, source, self.distances("dec/distances", written))
        return self.made("t5", [("ids", INT64, ["batch", "seq"]), ("written", INT64, ["batch", "dec"])], x, "dec")

    def made(self, name, inputs, result, rows):
        """The model: dimensions of a name have that, or a number."""
        self.node("Identity", "y", [result])
        outputs = [("y", FLOAT, ["batch", rows, self.width])]
        pinned = {} if self.is_open else FIXED
        inputs, outputs = ([(name, kind, [pinned.get(d, d) for d in dims]) for name, kind, dims in ports] for ports in (inputs, outputs))
        return self.model(name, inputs, outputs, 17)


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
    parser.add_argument("kind", choices=["bert", "vit", "whisper", "t5"])
    parser.add_argument("output")
    parser.add_argument("--half", action="store_true")
    parser.add_argument("--open", action="store_true")
    options = parser.parse_args()
    made = getattr(Transformer(is_open=options.open), options.kind)()
    onnx.save(halve(made) if options.half else made, options.output)
