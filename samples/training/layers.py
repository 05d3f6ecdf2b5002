"""Layers of this folder's models, in the form of a forward pass."""

import argparse
import math
import pathlib
import sys

import numpy as np

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
from model_builder import FLOAT, INT64, ModelBuilder, save  # noqa: E402, F401


class Layers(ModelBuilder):
    def ones(self, name, count):
        return self.weight(name, np.ones(count, np.float32))

    def zeros(self, name, *shape):
        return self.weight(name, np.zeros(shape, np.float32))

    def floats(self, name, value):
        return self.constant(name, value, np.float32)

    def ints(self, name, values):
        return self.constant(name, values, np.int64)

    def linear(self, name, value, inner, outer, gain=1.0):
        weight = self.normal(f"{name}.weight", (inner, outer), gain / math.sqrt(inner))
        product = self.node("MatMul", f"{name}.product", [value, weight])
        return self.node("Add", name, [product, self.zeros(f"{name}.bias", outer)])

    def convolution(self, name, value, inner, outer, side=3, stride=1, gain=math.sqrt(2), bias=True):
        weight = self.normal(f"{name}.weight", (outer, inner, side, side), gain / math.sqrt(inner * side * side))
        inputs = [value, weight, self.zeros(f"{name}.bias", outer)] if bias else [value, weight]
        return self.node("Conv", name, inputs, strides=[stride, stride], pads=[side // 2] * 4)

    def batch_norm(self, name, value, channels):
        """In the form for inference; `mode: train` of a schedule converts it to the form for training."""
        scale, bias = self.ones(f"{name}.weight", channels), self.zeros(f"{name}.bias", channels)
        mean, variance = self.zeros(f"{name}.running_mean", channels), self.ones(f"{name}.running_var", channels)
        return self.node("BatchNormalization", name, [value, scale, bias, mean, variance])

    def dropout(self, name, value, ratio):
        return self.node("Dropout", name, [value, self.floats(f"{name}.ratio", ratio)])

    def layer_norm(self, name, value, width):
        return self.node("LayerNormalization", name, [value, self.ones(f"{name}.weight", width), self.zeros(f"{name}.bias", width)])

    def attention(self, name, value, width, heads, causal=False, memory=None):
        """Queries, keys and values of one width, in heads; keys and values come from a memory if it is given."""
        sources = {"query": value, "key": memory or value, "value": memory or value}
        parts = [self.linear(f"{name}.{part}", source, width, width) for part, source in sources.items()]
        mixed = self.node("Attention", f"{name}.mixed", parts, q_num_heads=heads, kv_num_heads=heads, is_causal=int(causal))
        return self.linear(f"{name}.output", mixed, width, width, gain=0.5)

    def perceptron(self, name, value, width):
        inner = self.node("Gelu", f"{name}.act", [self.linear(f"{name}.up", value, width, 4 * width)])
        return self.linear(f"{name}.down", inner, 4 * width, width, gain=0.5)

    def residual(self, name, value, width, layer):
        """The value and what a layer makes of it normalized."""
        return self.node("Add", name, [value, layer(self.layer_norm(f"{name}.norm", value, width))])

    def embedding(self, tokens, vocab, context, width):
        """Words and their places, [batch, context, width]."""
        words = self.normal("words", (vocab, width), 1 / math.sqrt(width))
        places = self.normal("places", (context, width), 1 / math.sqrt(width))
        return self.node("Add", "embedding", [self.node("Gather", "word", [words, tokens]), places])

    def scores_of_words(self, value, width):
        """Products with the table of words, which is tied."""
        final = self.layer_norm("final_norm", value, width)
        return self.node("MatMul", "scores", [final, self.node("Transpose", "words.transposed", ["words"], perm=[1, 0])])


def parse(doc, kinds=(), **sizes):
    """Which of several models, where there are, the file to write, and sizes of which each is a flag."""
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    if kinds:
        parser.add_argument("kind", choices=kinds)
    parser.add_argument("output", help="the .onnx file to write")
    for name, default in sizes.items():
        parser.add_argument(f"--{name}", type=int, default=default)
    return parser.parse_args()
