"""./dev bench recurrence: LSTM, GRU and control flow (a Loop that ends early, an If in each step, a Scan), compiled, beside
ONNX Runtime.

    recurrence.py [--rows lstm,gru,control] [--threads 1,2] [--hidden 128,512] [--batch 1,8,32] [--rounds 15]
                  [--arch x86-64-v3,x86-64-v4]

Both are timed in turns, every second round backwards. A time is the median of a round's iterations; a ratio is ours / theirs
within one round, of which the table has the median over rounds with its 95 % interval (order statistics). The results are
compared first.
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
from onnx import TensorProto, helper, numpy_helper, parser

from command import run_in
from load import BUSY, Load, median_interval

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
WEFT = ROOT / "build" / "dev" / "weft"
FOLDER = ROOT / "build" / "bench" / "recurrence"
run = functools.partial(run_in, FOLDER)
TOLERANCE = 1e-4
STEPS, WIDTH, ROWS = 50, 256, 8
ROUND_MS = 60  # a side's part of a round lasts about so long
GATES = {"LSTM": 4, "GRU": 3}

# A layer that is repeated until it moves no more, a choice between two layers in each step, and a recurrent layer.
CONTROL = {
    "loop, early exit": f"""
<ir_version: 8, opset_import: ["" : 17]>
settle (float[{ROWS},{WIDTH}] x, float[{STEPS},{ROWS},{WIDTH}] xs) => (float[{ROWS},{WIDTH}] y)
<int64 most = {{200}}, float near = {{0.0001}}>
{{
  first = Sub(x, x)
  always = Constant<value = bool {{1}}>()
  y = Loop(most, always, first) <body = trip (int64 i, bool go, float[{ROWS},{WIDTH}] h)
    => (bool on, float[{ROWS},{WIDTH}] next)
  {{
    product = MatMul(h, w)
    sum = Add(product, x)
    next = Tanh(sum)
    step = Sub(next, h)
    size = Abs(step)
    most_moved = ReduceMax<keepdims = 0>(size)
    on = Greater(most_moved, near)
  }}>
}}""",
    "loop, if in each step": f"""
<ir_version: 8, opset_import: ["" : 17]>
choose (float[{ROWS},{WIDTH}] x, float[{STEPS},{ROWS},{WIDTH}] xs) => (float[{ROWS},{WIDTH}] y)
<int64 steps = {{{STEPS}}}, float zero = {{0}}>
{{
  always = Constant<value = bool {{1}}>()
  y = Loop(steps, always, x) <body = trip (int64 i, bool go, float[{ROWS},{WIDTH}] h)
    => (bool on, float[{ROWS},{WIDTH}] next)
  {{
    on = Identity(go)
    now = Gather(xs, i)
    total = ReduceSum<keepdims = 0>(now)
    positive = Greater(total, zero)
    next = If(positive) <then_branch = yes () => (float[{ROWS},{WIDTH}] a) {{
      p = MatMul(h, w)
      q = Add(p, now)
      a = Tanh(q)
    }}, else_branch = no () => (float[{ROWS},{WIDTH}] b) {{
      r = MatMul(now, v)
      s = Add(r, h)
      b = Sigmoid(s)
    }}>
  }}>
}}""",
    "scan": f"""
<ir_version: 8, opset_import: ["" : 17]>
scan (float[{ROWS},{WIDTH}] x, float[{STEPS},{ROWS},{WIDTH}] xs) => (float[{ROWS},{WIDTH}] last, float[{STEPS},{ROWS},{WIDTH}] y)
{{
  last, y = Scan <num_scan_inputs = 1, body = step (float[{ROWS},{WIDTH}] h, float[{ROWS},{WIDTH}] now)
    => (float[{ROWS},{WIDTH}] next, float[{ROWS},{WIDTH}] shown)
  {{
    p = MatMul(h, w)
    q = MatMul(now, v)
    sum = Add(p, q)
    next = Tanh(sum)
    shown = Relu(next)
  }}> (x, xs)
}}""",
}


def control_model(text):
    """The model with its two matrices, which shrink what they are multiplied with."""
    model, random = parser.parse_model(text), np.random.default_rng(0)
    for name in ("w", "v"):
        matrix = random.standard_normal((WIDTH, WIDTH)) * 0.7 / np.sqrt(WIDTH)
        model.graph.initializer.append(numpy_helper.from_array(matrix.astype(np.float32), name))
    return model


def cell_model(op, batch, hidden):
    """A layer over a sequence whose elements are as wide as its state."""
    random, rows = np.random.default_rng(0), GATES[op] * hidden
    shapes = {"W": (1, rows, hidden), "R": (1, rows, hidden), "B": (1, 2 * rows)}
    weights = [numpy_helper.from_array((random.standard_normal(shape) / np.sqrt(hidden)).astype(np.float32), name)
               for name, shape in shapes.items()]
    node = helper.make_node(op, ["xs", *shapes], ["y", "last"], hidden_size=hidden)
    graph = helper.make_graph(
        [node], op, [helper.make_tensor_value_info("xs", TensorProto.FLOAT, [STEPS, batch, hidden])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [STEPS, 1, batch, hidden]),
         helper.make_tensor_value_info("last", TensorProto.FLOAT, [1, batch, hidden])], weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


class Pair:
    """One model, compiled and in ONNX Runtime, on a number of threads."""

    def __init__(self, label, model, threads, arch):
        self.label, self.threads = f"{label}, {threads} threads", threads
        name = "".join(c if c.isalnum() else "_" for c in label)
        path = FOLDER / f"{name}.onnx"
        onnx.save(model, path)
        self.program = FOLDER / name
        run(WEFT, "compile", path, "-o", self.program, "--arch", arch, "--quiet")
        settings = onnxruntime.SessionOptions()
        settings.intra_op_num_threads = threads
        self.session = onnxruntime.InferenceSession(path, settings, providers=["CPUExecutionProvider"])
        random = np.random.default_rng(1)
        self.inputs = {i.name: random.standard_normal(i.shape).astype(np.float32) for i in self.session.get_inputs()}
        self.flags = ["--threads", threads]
        for key, array in self.inputs.items():
            np.save(FOLDER / f"{name}_{key}.npy", array)
            self.flags += ["--input", f"{key}={name}_{key}.npy"]
        self.compare()
        self.binding = self.session.io_binding()
        for key, array in self.inputs.items():
            self.binding.bind_cpu_input(key, array)
        for result in self.session.get_outputs():
            self.binding.bind_output(result.name)
        self.iterations = max(5, int(ROUND_MS / max(self.ours(5), 0.001)))

    def compare(self):
        run(self.program, *self.flags, "--output-dir", "out")
        for result, wanted in zip(self.session.get_outputs(), self.session.run(None, self.inputs)):
            off = np.abs(np.load(FOLDER / "out" / f"{result.name}.npy") - wanted).max() / np.abs(wanted).max()
            if not off <= TOLERANCE:
                sys.exit(f"{self.label}: '{result.name}' differs by {off:.1e} of its largest element")

    def ours(self, iterations):
        printed = run(self.program, *self.flags, "--iterations", iterations, "--warmup", 3, "--json")
        return json.loads(printed)["latency_ms"]["median"]

    def theirs(self, iterations):
        times = []
        for _ in range(3 + iterations):
            start = time.perf_counter()
            self.session.run_with_iobinding(self.binding)
            times.append(1e3 * (time.perf_counter() - start))
        return statistics.median(times[3:])

    def measure(self, rounds):
        pairs = []
        for turn in range(rounds):
            if turn % 2:
                theirs = self.theirs(self.iterations)
                pairs.append((self.ours(self.iterations), theirs))
            else:
                pairs.append((self.ours(self.iterations), self.theirs(self.iterations)))
        ours, theirs = (statistics.median(each) for each in zip(*pairs))
        ratio, low, high = median_interval([a / b for a, b in pairs])
        print(f"{self.label:<40}{ours:>9.3f}{theirs:>9.3f}{ratio:>8.2f}   {low:.2f} .. {high:.2f}", flush=True)


def models(options):
    kinds = options.rows.split(",")
    for op in GATES:
        for hidden in map(int, options.hidden.split(",")):
            for batch in map(int, options.batch.split(",")):
                if op.lower() in kinds:
                    yield f"{op}, batch {batch}, hidden {hidden}", cell_model(op, batch, hidden)
    for label, text in CONTROL.items():
        if "control" in kinds:
            yield label, control_model(text)


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--rows", default="lstm,gru,control")
    arguments.add_argument("--threads", default="1,2")
    arguments.add_argument("--hidden", default="128,512")
    arguments.add_argument("--batch", default="1,8,32")
    arguments.add_argument("--rounds", type=int, default=15)
    arguments.add_argument("--arch", default="x86-64-v3,x86-64-v4")
    options = arguments.parse_args()
    FOLDER.mkdir(parents=True, exist_ok=True)
    load = Load()
    print(f"{'milliseconds':<40}{'weft':>9}{'ORT':>9}{'ratio':>8}   95 %")
    for label, model in models(options):
        for threads in map(int, options.threads.split(",")):
            Pair(label, model, threads, options.arch).measure(options.rounds)
    print(f"{options.rounds} rounds; {load}" + (": run this again on a quiet machine" if load.of_others() > BUSY else ""))


if __name__ == "__main__":
    main()
