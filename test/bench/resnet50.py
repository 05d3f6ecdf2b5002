"""./dev bench resnet50: ResNet-50 (batch 1, 224 x 224, fp32, random weights), compiled, beside ONNX Runtime on one thread.

    resnet50.py [--archs x86-64-v3,x86-64-v4] [--rounds 8 --iterations 5]

All are timed in turns, every second round backwards. A time is the shortest of a round's iterations; a ratio is the
median over rounds of ours / theirs within one round. The results before the softmax are compared first.
"""

import argparse
import functools
import json
import pathlib
import statistics
import sys
import time

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

from command import run_in
from load import BUSY, Load

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
WEFT = ROOT / "build" / "dev" / "weft"
FOLDER = ROOT / "build" / "bench"
run = functools.partial(run_in, FOLDER)
TOLERANCE = 1e-4  # fp32 against other programs


class ResNet:
    """The network of He et al. 2015 as exporters write it: Conv, BatchNormalization, Relu, Add."""

    def __init__(self, seed=0):
        self.random = np.random.default_rng(seed)
        self.nodes, self.weights = [], []

    def weight(self, name, value):
        self.weights.append(numpy_helper.from_array(value.astype(np.float32), name))
        return name

    def op(self, kind, name, inputs, **attributes):
        self.nodes.append(helper.make_node(kind, inputs, [name], name=name, **attributes))
        return name

    def conv(self, name, x, channels, filters, kernel, stride=1, relu=True):
        scale = np.sqrt(2.0 / (channels * kernel * kernel))
        w = self.weight(f"{name}.weight", self.random.standard_normal((filters, channels, kernel, kernel)) * scale)
        y = self.op("Conv", f"{name}", [x, w], kernel_shape=[kernel] * 2, strides=[stride] * 2, pads=[kernel // 2] * 4)
        parts = [("scale", 0.5, 1.0), ("bias", -0.1, 0.1), ("mean", -0.1, 0.1), ("var", 0.5, 1.5)]
        norm = [self.weight(f"{name}.{part}", self.random.uniform(low, high, filters)) for part, low, high in parts]
        y = self.op("BatchNormalization", f"{name}.bn", [y, *norm])
        return self.op("Relu", f"{name}.relu", [y]) if relu else y

    def block(self, name, x, channels, width, stride):
        out = 4 * width
        y = self.conv(f"{name}.1", x, channels, width, 1)
        y = self.conv(f"{name}.2", y, width, width, 3, stride)
        y = self.conv(f"{name}.3", y, width, out, 1, relu=False)
        if channels != out or stride != 1:
            x = self.conv(f"{name}.down", x, channels, out, 1, stride, relu=False)
        return self.op("Relu", f"{name}.out", [self.op("Add", f"{name}.add", [y, x])])

    def model(self):
        x = self.conv("stem", "x", 3, 64, 7, 2)
        x = self.op("MaxPool", "pool", [x], kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1])
        channels = 64
        for stage, (blocks, width) in enumerate([(3, 64), (4, 128), (6, 256), (3, 512)]):
            for i in range(blocks):
                x = self.block(f"{stage}.{i}", x, channels, width, 2 if stage and i == 0 else 1)
                channels = 4 * width
        x = self.op("Flatten", "flat", [self.op("GlobalAveragePool", "mean", [x])])
        fc = self.weight("fc.weight", self.random.standard_normal((2048, 1000)) * 0.02)
        self.op("MatMul", "y", [x, fc])
        graph = helper.make_graph(
            self.nodes, "resnet50", [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 3, 224, 224])],
            [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 1000])], self.weights)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=10)


def compare(programs, expected, tolerance):
    for name, program in programs.items():
        run(program, "--input", "x=x.npy", "--output-dir", "out", "--threads", 1)
        difference = np.abs(np.load(FOLDER / "out" / "y.npy") - expected).max() / np.abs(expected).max()
        print(f"{name}: differs from ONNX Runtime by {difference:.1e} of the largest element")
        if not difference <= tolerance:
            sys.exit(f"{name}: the results differ")


def session_of(path, level=onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL):
    settings = onnxruntime.SessionOptions()
    settings.intra_op_num_threads = 1
    settings.graph_optimization_level = level
    return onnxruntime.InferenceSession(path, settings, providers=["CPUExecutionProvider"])


def bench(network, model, tolerance):
    """Compares and times a model from x [1, 3, 224, 224] to y; what is expected is computed without fusions."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--archs", default="x86-64-v3,x86-64-v4")
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--iterations", type=int, default=5)
    options = parser.parse_args()
    FOLDER.mkdir(parents=True, exist_ok=True)
    path = FOLDER / f"{network}.onnx"
    onnx.save(model, path)
    x = np.random.default_rng(1).standard_normal((1, 3, 224, 224)).astype(np.float32)
    np.save(FOLDER / "x.npy", x)
    session = session_of(path)
    unfused = session_of(path, onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL)
    programs = {}
    for arch in options.archs.split(","):
        programs[arch] = FOLDER / f"{network}_{arch}"
        start = time.monotonic()
        run(WEFT, "compile", path, "--arch", arch, "-o", programs[arch])
        print(f"compiled for {arch} in {time.monotonic() - start:.1f} s")
    compare(programs, unfused.run(None, {"x": x})[0], tolerance)

    def theirs():
        times = []
        for _ in range(options.iterations):
            start = time.perf_counter()
            session.run(None, {"x": x})
            times.append(1e3 * (time.perf_counter() - start))
        return min(times)

    def ours(program):
        printed = run(program, "--random-inputs", 1, "--iterations", options.iterations, "--warmup", 1, "--threads", 1, "--json")
        return json.loads(printed)["latency_ms"]["min"]

    runs = {"ONNX Runtime": theirs, **{arch: lambda p=program: ours(p) for arch, program in programs.items()}}
    times = {name: [] for name in runs}
    load = Load()
    for turn in range(options.rounds):
        for name in list(runs)[:: -1 if turn % 2 else 1]:
            times[name].append(runs[name]())
    print(f"\n{'milliseconds, one thread':<26}{'median':>8}{'least':>8}{'ratio':>8}")
    for name, list_ in times.items():
        ratio = statistics.median(a / b for a, b in zip(list_, times["ONNX Runtime"]))
        print(f"{name:<26}{statistics.median(list_):>8.1f}{min(list_):>8.1f}{ratio:>8.2f}")
    print(f"{options.rounds} rounds; {load}" + (": run this again on a quiet machine" if load.of_others() > BUSY else ""))


if __name__ == "__main__":
    bench("resnet50", ResNet().model(), TOLERANCE)
