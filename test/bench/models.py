"""./dev bench models: whole networks beside ONNX Runtime and OpenVINO: time, memory, size, compile time.

    models.py [FILE...] [--threads 1,2] [--rounds 9] [--arch x86-64-v3,x86-64-v4] [--precision fp32] [--dim N=1 ...] [--chart FILE.svg]

Without files it takes the exports of networks/make.py. These need PyTorch, which is installed into build/ the first
time. Dimensions without a number are 1, or the value of --dim. Results are compared first. All sides are timed in
turns, every second round backwards. A time is the median of a round's iterations, a ratio is ours / theirs within one
round. The table has the median of ratios over rounds with its 95 % interval. OpenVINO computes in fp32, and again in
the precision that it chooses itself if that is another one. If it cannot be installed, or refuses a model, its rows are
missing. The bound is the time of the model's products and convolutions at these threads' rate of multiplying and adding
floats in registers, or the time to read its weights once. The longer one counts (bounds.cpp measures both). `reached`
is the bound over our time. Memory is the peak of a process that runs only the model; for ONNX Runtime without Python
and the import. The file is the executable with its weights.
"""

import argparse
import concurrent.futures
import functools
import json
import math
import pathlib
import re
import statistics
import subprocess
import sys
import time

import numpy as np
import onnx
import onnxruntime

from chart import write_chart
from command import run_in
from load import BUSY, Load, median_interval
from networks.converted import write_converted

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "test"))
from exported_anew import interpreter  # noqa: E402

WEFT = ROOT / "build" / "dev" / "weft"
FOLDER = ROOT / "build" / "bench" / "models"
TOLERANCE = {"fp32": 1e-3, "fp16": 2e-2, "bf16": 1e-1}  # of the largest element
STEPS = 1e-2  # of a quantized model: numbers beside a tie are rounded either way
ROUND_MS = 150  # a side's part of a round lasts about so long
run = functools.partial(run_in, FOLDER)

# Peak memory of one run in a process of its own, over that of a process which has only imported everything.
THEIR_MEMORY = """
import sys, numpy, onnxruntime
def peak(): return next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("VmHWM"))
before = peak()
session = onnxruntime.InferenceSession(sys.argv[1], providers=["CPUExecutionProvider"])
session.run(None, {each.name: numpy.load(f"{sys.argv[2]}/{i}.npy") for i, each in enumerate(session.get_inputs())})
print(peak() - before)
"""


def default_models():
    python, reason = interpreter(ROOT / "test" / "conformance" / "exports" / "requirements.txt", "exports_make")
    if not python:
        sys.exit(f"no networks: {reason}")
    folder = FOLDER / "exported"
    if not (folder / "complete").exists():
        run(python, ROOT / "test" / "bench" / "networks" / "make.py", folder)
        write_converted(folder)
        (folder / "complete").touch()
    return sorted(folder.glob("*.onnx"))


def drawn(value, sizes, random):
    """An array for an input."""
    tensor = value.type.tensor_type
    shape = [d.dim_value or sizes.get(d.dim_param, 1) for d in tensor.shape.dim]
    dtype = onnx.helper.tensor_dtype_to_np_dtype(tensor.elem_type)
    if np.issubdtype(dtype, np.floating):
        return random.standard_normal(shape).astype(dtype)
    return random.integers(0, 2, shape).astype(dtype)


def request(path, dims):
    """Arrays for the inputs of a model, and what to call its open dimensions: by entries NAME=NUMBER, else 1."""
    graph = onnx.load(path, load_external_data=False).graph
    constants = {tensor.name for tensor in graph.initializer}
    values = [value for value in graph.input if value.name not in constants]
    sizes = {name: int(size) for name, size in (entry.split("=") for entry in dims)}
    random = np.random.default_rng(0)
    names = {d.dim_param for value in values for d in value.type.tensor_type.shape.dim if d.dim_param}
    return {value.name: drawn(value, sizes, random) for value in values}, [f"{name}={sizes.get(name, 1)}" for name in sorted(names)]


class OpenVino:
    """OpenVINO with one model, in a process of its own (openvino_server.py)."""

    def __init__(self, python, contest, threads, precision):
        server = pathlib.Path(__file__).resolve().parent / "openvino_server.py"
        words = [python, server, contest.path, contest.folder, threads, precision]
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
        self.process = subprocess.Popen([str(word) for word in words], **pipes, text=True)
        self.precision = self.process.stdout.readline().strip()  # empty where OpenVINO refuses the model

    def time(self, iterations):
        self.process.stdin.write(f"{iterations}\n")
        self.process.stdin.flush()
        return float(self.process.stdout.readline())

    def close(self):
        self.process.stdin.close()
        self.process.wait()


class Contest:
    """One model, compiled and in the other runtimes, and a request."""

    def __init__(self, path, inputs, dims, flags):
        graph = onnx.load(path, load_external_data=False).graph
        self.is_quantized = any(node.op_type == "QuantizeLinear" for node in graph.node)
        self.name, self.folder, self.path = path.stem, FOLDER / path.stem, path
        self.inputs = {value.name: inputs[value.name] for value in graph.input if value.name in inputs}
        self.folder.mkdir(parents=True, exist_ok=True)
        self.program = self.folder / "program"
        start, self.compiling = time.perf_counter(), [*flags, *(f"--dim={dim}" for dim in dims)]
        run(WEFT, "compile", path, "-o", self.program, "--quiet", *self.compiling)
        self.seconds = time.perf_counter() - start
        self.flags = []
        for number, (name, array) in enumerate(self.inputs.items()):
            np.save(self.folder / f"{number}.npy", array)
            self.flags += ["--input", f"{name}={self.folder / str(number)}.npy"]

    def difference(self):
        """The largest one, over the largest element of its result, to ONNX Runtime without its fusions, some of which round."""
        run(self.program, *self.flags, "--output-dir", self.folder / "out")
        settings = onnxruntime.SessionOptions()
        settings.graph_optimization_level, settings.log_severity_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL, 3
        session, worst = onnxruntime.InferenceSession(self.path, settings, providers=["CPUExecutionProvider"]), 0.0
        for result, wanted in zip(session.get_outputs(), session.run(None, self.inputs)):
            found = np.load(self.folder / "out" / (re.sub("[^A-Za-z0-9._-]", "_", result.name) + ".npy"))
            if wanted.size and np.issubdtype(wanted.dtype, np.floating):
                worst = max(worst, np.abs(found - wanted).max() / max(np.abs(wanted).max(), 1e-30))
            elif not np.array_equal(found, wanted):
                worst = math.inf
        return worst

    def ours(self, threads, iterations):
        printed = run(self.program, *self.flags, "--threads", threads, "--iterations", iterations, "--warmup", 1, "--json")
        return json.loads(printed)["latency_ms"]["median"]

    def of_onnxruntime(self, threads):
        settings = onnxruntime.SessionOptions()
        settings.intra_op_num_threads, settings.log_severity_level = threads, 3
        session = onnxruntime.InferenceSession(self.path, settings, providers=["CPUExecutionProvider"])

        def timed():
            start = time.perf_counter()
            session.run(None, self.inputs)
            return 1e3 * (time.perf_counter() - start)

        return lambda iterations: (timed(), statistics.median(timed() for _ in range(iterations)))[1]

    def measure(self, threads, rounds, openvino):
        """Times by side, in milliseconds, one of each round."""
        servers = [OpenVino(openvino, self, threads, precision) for precision in ("f32", "default")] if openvino else []
        if servers and servers[1].precision in ("", servers[0].precision):
            servers.pop().close()
        if servers and not servers[0].precision:
            servers.pop().close()
        sides = {"weft": functools.partial(self.ours, threads), "ORT": self.of_onnxruntime(threads)}
        sides.update((f"OpenVINO {server.precision}", server.time) for server in servers)
        iterations = max(2, int(ROUND_MS / max(self.ours(threads, 2), 0.001)))
        times = {name: [] for name in sides}
        for turn in range(rounds):
            for name in reversed(sides) if turn % 2 else sides:
                times[name].append(sides[name](iterations))
        for server in servers:
            server.close()
        return times

    def work(self):
        """Operations of the products and convolutions, and bytes of weights that kernels read."""
        kernels = json.loads(run(WEFT, "explain", self.path, "--json", *self.compiling))["kernels"]
        return [sum(kernel[what] * kernel["launches"] for kernel in kernels) for what in ("operations", "weight_bytes")]

    def bound(self, threads):
        """Milliseconds that this takes at best."""
        return max(amount / rate for amount, rate in zip(self.work(), rates(threads)))

    def memory(self):
        """Peak mebibytes of ours and theirs."""
        ours = json.loads(run(self.program, *self.flags, "--threads", 1, "--json"))["peak_memory_bytes"]
        theirs = int(run(sys.executable, "-c", THEIR_MEMORY, self.path, self.folder))
        return ours / 2**20, theirs / 1024


@functools.cache
def rates(threads):
    """Floating point operations and bytes read that so many threads do at best in a millisecond."""
    machine = FOLDER / "bounds"
    run("g++", "-std=c++20", "-O2", "-march=native", pathlib.Path(__file__).resolve().parent / "bounds.cpp", "-o", machine)
    with concurrent.futures.ThreadPoolExecutor(threads) as pool:
        figures = [list(map(float, each.split())) for each in pool.map(lambda _: run(machine, 64), range(threads))]
    return sum(flops for flops, _, _ in figures) * 1e6, sum(read for _, read, _ in figures) * 1e6


def ratios_of(times):
    """By other side: the median of ours / theirs within a round, and its interval."""
    return {name: median_interval([a / b for a, b in zip(times["weft"], each)]) for name, each in times.items() if name != "weft"}


def geometric_mean(values):
    return math.exp(statistics.mean(map(math.log, values)))


def main(words=None, files=None, request=request):
    """`files`, where none are named: the models. `request` gives arrays and dimensions of a model (see `request`)."""
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("files", nargs="*", type=pathlib.Path)
    arguments.add_argument("--threads", default="1,2")
    arguments.add_argument("--rounds", type=int, default=9)
    arguments.add_argument("--arch", default="x86-64-v3,x86-64-v4")
    arguments.add_argument("--precision", default="fp32", choices=("fp32", "bf16", "fp16"))
    arguments.add_argument("--dim", action="append", default=[])
    arguments.add_argument("--chart", type=pathlib.Path)
    options = arguments.parse_args(words)
    FOLDER.mkdir(parents=True, exist_ok=True)
    flags = ["--arch", options.arch] + (["--precision", options.precision] if options.precision != "fp32" else [])
    openvino, reason = interpreter(ROOT / "test" / "bench" / "requirements.txt", "bench_others")
    if not openvino:
        print(f"without OpenVINO: {reason}")
    load, rows, shares, wrong = Load(), {}, [], []
    print(f"{'':<18}{'threads':>8}{'weft ms':>9}{'bound':>8}{'reached':>9}   side             ms  ratio   95 %            MiB    ORT   file"
          "  compile s  error")
    for path in options.files or files or default_models():
        contest = Contest(path.resolve(), *request(path, options.dim), flags)
        difference = contest.difference()
        ours_mib, their_mib = contest.memory()
        shares.append(ours_mib / their_mib)
        if not difference <= (STEPS if contest.is_quantized else TOLERANCE[options.precision]):
            wrong.append(f"{contest.name} differs by {difference:.0e}")
        for threads in map(int, options.threads.split(",")):
            times = contest.measure(threads, options.rounds, openvino)
            ours_ms, bound = statistics.median(times["weft"]), contest.bound(threads)
            head = f"{contest.name:<18}{threads:>8}{ours_ms:>9.2f}{bound:>8.2f}{bound / ours_ms:>9.2f}"
            tail = (f"{ours_mib:>8.0f}{their_mib:>7.0f}{contest.program.stat().st_size / 2**20:>7.0f}"
                    f"{contest.seconds:>11.1f}  {difference:.0e}")
            for side, (ratio, low, high) in ratios_of(times).items():
                rows.setdefault((side, threads), {})[contest.name] = (ratio, low, high)
                print(f"{head:<52}   {side:<13}{statistics.median(times[side]):>6.1f}{ratio:>7.2f}   {low:.2f} .. {high:.2f}{tail}", flush=True)
                head = tail = ""
    for (side, threads), row in rows.items():
        ratios = [ratio for ratio, _, _ in row.values()]
        print(f"{side}, {threads} threads: geometric mean of {len(ratios)} ratios {geometric_mean(ratios):.2f}, largest {max(ratios):.2f}")
    print(f"peak memory: {statistics.median(shares):.2f} of ONNX Runtime's in the median")
    print(f"{options.rounds} rounds; {load}" + (": run this again on a quiet machine" if load.of_others() > BUSY else ""))
    if options.chart:
        write_chart(options.chart, rows)
    if wrong:
        sys.exit("; ".join(wrong))


if __name__ == "__main__":
    main()
