"""What the models of this folder are made of: layers in the form that a forward pass has."""

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
        """In the form for inference: `mode: train` of a schedule makes that for training of it."""
        scale, bias = self.ones(f"{name}.weight", channels), self.zeros(f"{name}.bias", channels)
        mean, variance = self.zeros(f"{name}.running_mean", channels), self.ones(f"{name}.running_var", channels)
        return self.node("BatchNormalization", name, [value, scale, bias, mean, variance])

    def dropout(self, name, value, ratio):
        return self.node("Dropout", name, [value, self.floats(f"{name}.ratio", ratio)])
