"""./dev bench convolution: every convolution of ResNet-50 beside ONNX Runtime's, one thread.

    convolution.py [--arch x86-64-v3,x86-64-v4] [--rounds 25] [--cpu N]

Each convolution (with bias and Relu, batch 1, 224 x 224) is a model of its own. ONNX Runtime's time is that of the
Conv node alone, as its profile gives it: a whole network brings the image into its order and back only once. All run
in turns on one core, each round through the whole network, so that filters come from where they come from in a
network. A time is the shortest of all rounds, which other programs disturb least; the last line adds them up, each as
often as the network has it.
"""

import argparse
import ctypes
import json
import os
import pathlib
import subprocess
import tempfile

import numpy as np
import onnx
import onnxruntime

from load import BUSY, Load

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
FOLDER = ROOT / "build" / "bench"
FLAGS = ["-std=c++20", "-O3", "-fno-math-errno", "-fno-trapping-math", "-fwrapv", "-fopenmp-simd", "-w"]
BOUND = 1e-5


def resnet50():
    """Rows of (times in the network, side of the image, channels, filters, kernel, stride)."""
    rows = {}

    def add(*row):
        rows[row] = rows.get(row, 0) + 1

    add(224, 3, 64, 7, 2)
    side, channels = 56, 64
    for stage, (blocks, width) in enumerate(((3, 64), (4, 128), (6, 256), (3, 512))):
        for block in range(blocks):
            stride = 2 if stage > 0 and block == 0 else 1
            add(side, channels, width, 1, 1)
            add(side, width, width, 3, stride)
            if block == 0:
                add(side, channels, 4 * width, 1, stride)
            side, channels = side // stride, 4 * width
            add(side, width, channels, 1, 1)
    return [(count, *row) for row, count in rows.items()]


def library(arch):
    """The kernel compiled as emitted programs are."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    path = FOLDER / f"convolution_{arch}.so"
    runtime = ROOT / "runtime_lib"
    subprocess.run(["g++", *FLAGS, f"-march={arch}", "-shared", "-fPIC", f"-I{runtime / 'include'}",
                    str(ROOT / "test" / "bench" / "convolution.cpp"), str(runtime / "src" / "scratch.cpp"),
                    str(runtime / "src" / "team.cpp"), "-o", str(path)], check=True)
    loaded = ctypes.CDLL(str(path))
    loaded.make_layer.restype = ctypes.c_void_p
    loaded.last_result.restype = ctypes.POINTER(ctypes.c_float)
    loaded.time_layer.restype = ctypes.c_double
    return loaded


class Layer:
    """One convolution, ours for each architecture and ONNX Runtime's."""

    def __init__(self, row, libraries, random):
        self.count, side, channels, filters, kernel, stride = row
        pad, out = kernel // 2, -(-side // stride)
        self.name = f"{kernel}x{kernel}/{stride} {channels} -> {filters} at {side}"
        self.flops = 2 * out * out * channels * filters * kernel * kernel
        self.x = random.standard_normal((1, channels, side, side), dtype=np.float32)
        weights = random.standard_normal((filters, channels, kernel, kernel), dtype=np.float32)
        bias = random.standard_normal(filters, dtype=np.float32)
        numbers = [1, side, side, 1, out, out, 1, kernel, kernel, 1, stride, stride, 1, 1, 1, 0, pad, pad,
                   1, 1, channels, filters]
        self.shape = (out, out, filters)
        x = np.ascontiguousarray(self.x.transpose(0, 2, 3, 1))
        arguments = [(ctypes.c_int64 * len(numbers))(*numbers), *map(pointer, (x, weights, bias))]
        self.ours = [(each, ctypes.c_void_p(each.make_layer(*arguments))) for each in libraries]
        self.session = session(weights, bias, kernel, stride, pad)

    def check(self):
        expected = self.session.run(None, {"x": self.x})[0][0]
        for each, layer in self.ours:
            each.time_layer(layer)
            got = np.ctypeslib.as_array(each.last_result(), self.shape).transpose(2, 0, 1)
            error = np.abs(got - expected).max() / np.abs(expected).max()
            if not error < BOUND:
                raise SystemExit(f"{self.name}: differs from ONNX Runtime by {error:.1e} of the largest value")

    def time_theirs(self):
        self.session.run(None, {"x": self.x})

    def their_times(self):
        """Seconds of the Conv node of all calls so far, the first one of `check` included."""
        with open(self.session.end_profiling()) as file:
            events = json.load(file)
        return [event["dur"] * 1e-6 for event in events
                if event.get("cat") == "Node" and event["args"].get("op_name") in ("Conv", "FusedConv")
                and event["name"].endswith("_kernel_time")]

    def time_ours(self):
        return [each.time_layer(layer) for each, layer in self.ours]


def pointer(array):
    return array.ctypes.data_as(ctypes.c_void_p)


def session(weights, bias, kernel, stride, pad):
    helper = onnx.helper
    nodes = [helper.make_node("Conv", ["x", "w", "b"], ["s"], kernel_shape=[kernel] * 2, strides=[stride] * 2,
                              pads=[pad] * 4),
             helper.make_node("Relu", ["s"], ["y"])]
    image = helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, [1, weights.shape[1], None, None])
    result = helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, None)
    constants = [onnx.numpy_helper.from_array(weights, "w"), onnx.numpy_helper.from_array(bias, "b")]
    graph = helper.make_graph(nodes, "convolution", [image], [result], constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.enable_profiling = True
    options.profile_file_prefix = str(pathlib.Path(tempfile.mkdtemp()) / "profile")
    return onnxruntime.InferenceSession(model.SerializeToString(), options, ["CPUExecutionProvider"])


def cpu_name():
    with open("/proc/cpuinfo") as file:
        return next(line.split(":")[1].strip() for line in file if line.startswith("model name"))


def table_rows(layers, ours, theirs):
    """Rows of (name, count, operations, their seconds, our seconds for each architecture), then their sum.

    `ours` and `theirs` hold the seconds of each round and layer, `ours` those of each architecture.
    """
    rows = []
    for i, layer in enumerate(layers):
        mine = [min(times) for times in zip(*(each[i] for each in ours))]
        rows.append((layer.name, layer.count, layer.flops, min(each[i] for each in theirs), mine))
    sums = [sum(row[1] * row[column] for row in rows) for column in (2, 3)]
    mine = [sum(row[1] * row[4][a] for row in rows) for a in range(len(rows[0][4]))]
    return [*rows, ("whole network", sum(row[1] for row in rows), *sums, mine)]


def print_table(rows, archs):
    print(f"{'convolution':<28}{'times':>6}{'ORT us':>9}{'GFLOP/s':>9}"
          + "".join(f"{arch + ' us':>14}{'GFLOP/s':>9}{'ratio':>7}" for arch in archs))
    for name, count, flops, theirs, ours in rows:
        print(f"{name:<28}{count:>6}{theirs * 1e6:>9.0f}{flops / theirs / 1e9:>9.1f}"
              + "".join(f"{time * 1e6:>14.0f}{flops / time / 1e9:>9.1f}{time / theirs:>7.2f}" for time in ours))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--arch", default="x86-64-v3,x86-64-v4")
    parser.add_argument("--rounds", type=int, default=25)
    parser.add_argument("--cpu", type=int, default=max(os.sched_getaffinity(0)))
    options = parser.parse_args()
    archs = options.arch.split(",")
    libraries = [library(arch) for arch in archs]
    os.sched_setaffinity(0, {options.cpu})
    random = np.random.default_rng(0)
    layers = [Layer(row, libraries, random) for row in resnet50()]
    for layer in layers:
        layer.check()
    load, ours = Load(), []
    for _ in range(options.rounds):
        times = []
        for layer in layers:
            layer.time_theirs()
            times.append(layer.time_ours())
        ours.append(times)
    theirs = list(zip(*(layer.their_times()[1:] for layer in layers)))
    print(f"ResNet-50's convolutions, batch 1, 224 x 224, fp32, one thread; {cpu_name()}")
    print_table(table_rows(layers, ours, theirs), archs)
    print(f"{options.rounds} rounds; {load}" + (": run this again on a quiet machine" if load.of_others() > BUSY else ""))


if __name__ == "__main__":
    main()
