"""Writes seeded inputs of a model and what ONNX Runtime computes from them, as DIR/input_N.npy and DIR/output_N.npy.

    reference.py MODEL.onnx DIR [--dim batch=2 --dim seq=16] [--below input_ids=503] [--seed 0]

Floats are uniform in [-1, 1), whole numbers 0 or 1 (or below the limit that --below gives for that input).
"""

import argparse
import pathlib
import sys

import numpy as np
import onnx
import onnx.parser
import onnxruntime
from onnx import helper


def load(path):
    """A model from .onnx or ONNX text; external data stays beside the file."""
    if str(path).endswith(".onnxtxt"):
        return onnx.parser.parse_model(pathlib.Path(path).read_text())
    return onnx.load(path, load_external_data=False)


def length_of(dim, dims):
    """The value of --dim; 1 for a dim that is open without it (no name, or the -1 of old converters)."""
    if dim.dim_param:
        return dims.get(dim.dim_param, 1)
    return dim.dim_value if dim.HasField("dim_value") and dim.dim_value >= 0 else 1


def seeded(value, dims, below, random):
    tensor = value.type.tensor_type
    dtype = helper.tensor_dtype_to_np_dtype(tensor.elem_type)
    shape = [length_of(dim, dims) for dim in tensor.shape.dim]
    if dtype == bool:
        return random.integers(0, 2, shape).astype(bool)
    if np.issubdtype(dtype, np.integer):
        return random.integers(0, below.get(value.name, 2), shape).astype(dtype)
    return random.uniform(-1.0, 1.0, shape).astype(dtype)


def write_reference(path, folder, dims, below=None, seed=0):
    model = load(path)
    weights = {tensor.name for tensor in model.graph.initializer}
    inputs = [value for value in model.graph.input if value.name not in weights]
    random = np.random.default_rng(seed)
    feed = {value.name: seeded(value, dims, below or {}, random) for value in inputs}
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    source = model.SerializeToString() if str(path).endswith(".onnxtxt") else str(path)
    outputs = onnxruntime.InferenceSession(source, options, ["CPUExecutionProvider"]).run(None, feed)
    folder = pathlib.Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    for index, value in enumerate(inputs):
        np.save(folder / f"input_{index}.npy", feed[value.name])
    for index, output in enumerate(outputs):
        np.save(folder / f"output_{index}.npy", output)


def pairs(items):
    return {name: int(number) for name, number in (item.split("=") for item in items)}


def main(arguments):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("folder")
    parser.add_argument("--dim", action="append", default=[], metavar="NAME=N")
    parser.add_argument("--below", action="append", default=[], metavar="INPUT=N")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args(arguments)
    write_reference(options.model, options.folder, pairs(options.dim), pairs(options.below), options.seed)


if __name__ == "__main__":
    main(sys.argv[1:])
