"""A convolution net for the digits of scikit-learn (8 x 8 pixels, ten classes), its data, and how good it is.

    digits.py model DIGITS.onnx
    digits.py data FOLDER                  writes {train,test}_{images,labels}.npy, one image in five for the test
    digits.py accuracy SCORES.npy LABELS.npy

`data` needs scikit-learn. Input: images float [batch, 1, 8, 8], 0 .. 1. Output: scores float [batch, 10].
"""

import pathlib
import sys

import numpy as np
from layers import FLOAT, Layers, save

CHANNELS, CLASSES = (16, 32, 64), 10


def write_model(file):
    build, value, inner = Layers(seed=1), "images", 1
    for number, outer in enumerate(CHANNELS):
        name = f"block{number}"
        value = build.convolution(f"{name}.conv", value, inner, outer, bias=False)
        value = build.node("Relu", f"{name}.act", [build.batch_norm(f"{name}.norm", value, outer)])
        if number > 0:
            value = build.node("MaxPool", f"{name}.pool", [value], kernel_shape=[2, 2], strides=[2, 2])
        inner = outer
    value = build.node("Flatten", "flat", [value])
    value = build.dropout("dropout", value, 0.5)
    build.node("Identity", "scores", [build.linear("head", value, inner * 4, CLASSES)])
    save(build.model("digits", [("images", FLOAT, ["batch", 1, 8, 8])], [("scores", FLOAT, ["batch", CLASSES])], 20), file)


def write_data(folder):
    from sklearn.datasets import load_digits

    digits = load_digits()
    images = (digits.images / 16).astype(np.float32)[:, None]
    is_test = np.random.default_rng(1).permutation(len(images)) < len(images) // 5
    for name, chosen in (("train", ~is_test), ("test", is_test)):
        np.save(pathlib.Path(folder) / f"{name}_images.npy", images[chosen])
        np.save(pathlib.Path(folder) / f"{name}_labels.npy", digits.target[chosen])
        print(f"{name}: {chosen.sum()} images")


def print_accuracy(scores, labels):
    print(f"{(np.load(scores).argmax(axis=1) == np.load(labels)).mean():.4f}")


if __name__ == "__main__":
    {"model": write_model, "data": write_data, "accuracy": print_accuracy}[sys.argv[1]](*sys.argv[2:])
