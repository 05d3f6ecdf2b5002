"""Writes samples/mlp at another size: the same names, seeded weights.

    mlp.py OUTPUT.onnx [--rows 512 --width 512 --hidden 2048]
"""

import argparse
import math
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent.parent / "samples"))
from model_builder import FLOAT, ModelBuilder, save  # noqa: E402


def make(rows, width, hidden):
    builder = ModelBuilder()
    node = builder.node
    fc_weight = builder.normal("fc_weight", (width, hidden), 1 / math.sqrt(width))
    proj_weight = builder.normal("proj_weight", (hidden, width), 1 / math.sqrt(hidden))
    fc = node("MatMul", "fc", ["x", fc_weight])
    fc_add = node("Add", "fc_add", [fc, builder.normal("fc_bias", (hidden,), 0.1)])
    proj = node("MatMul", "proj", [node("Gelu", "act", [fc_add], approximate="tanh"), proj_weight])
    bias = node("Add", "bias", [proj, builder.normal("proj_bias", (width,), 0.1)])
    residual = node("Add", "residual", [bias, "x"])
    return builder.model("mlp", [("x", FLOAT, [rows, width])], [(residual, FLOAT, [rows, width])], opset=20)


def main(arguments):
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("output")
    for name, default in (("rows", 512), ("width", 512), ("hidden", 2048)):
        parser.add_argument(f"--{name}", type=int, default=default)
    options = parser.parse_args(arguments)
    save(make(options.rows, options.width, options.hidden), options.output)


if __name__ == "__main__":
    main(sys.argv[1:])
