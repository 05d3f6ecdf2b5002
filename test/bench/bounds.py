"""./dev bench bounds: kernels beside what a core can do at best.

    bounds.py [--rounds 5] [--arch x86-64-v3]

One thread. A bound is the time of multiplications and additions at their rate in registers, or of the necessary bytes
at the rate of reading or copying memory. Both rates are measured here (bounds.cpp), before and after each kernel; the
longer time counts. The last column is the fraction of the bound that the kernel reaches, as the median of the rounds
with its 95 % interval. Weights that are read once are together larger than the caches, and as much memory is read for
their bound. The same holds for tensors of the last rows. Tensors of depthwise convolutions lie in caches, where a copy
of the same size is measured. Copies use plain stores and memcpy, which read the destination too, so rows with
non-temporal stores may take less time.
"""

import argparse
import json
import pathlib
import statistics

from command import run_in
from load import BUSY, Load, median_interval

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
WEFT = ROOT / "build" / "dev" / "weft"
FOLDER = ROOT / "build" / "bench" / "bounds"
HEAD = '<ir_version: 10, opset_import: ["" : 20]>\n'
MEGABYTES = 64  # of each array whose reading and copying is measured


def product(m, n, k):
    text = f"m (float[{m},{k}] x) => (float[{m},{n}] y) <float[{k},{n}] w = random(1, 0.02)> {{ y = MatMul(x, w) }}"
    return f"product {m} x {k} to {n}", text, {"flops": 2 * m * n * k}, MEGABYTES


def batched(b, m, n, k):
    text = f"m (float[{b},{m},{k}] x, float[{b},{k},{n}] w) => (float[{b},{m},{n}] y) {{ y = MatMul(x, w) }}"
    return f"{b} products {m} x {k} to {n}", text, {"flops": 2 * b * m * n * k}, MEGABYTES


def one_row(width, layers):
    """Products of one row, whose weights come from memory."""
    weights = ", ".join(f"float[{width},{width}] w{i} = random({i + 1}, 0.015)" for i in range(layers))
    nodes = " ".join(f"h{i + 1} = MatMul(h{i}, w{i})" for i in range(layers))
    text = f"m (float[1,{width}] h0) => (float[1,{width}] h{layers}) <{weights}> {{ {nodes} }}"
    bytes_read = 4 * layers * width * width  # of an array that is not much larger than a cache, this has a part
    return f"{layers} x 1 row, {width} to {width}", text, {"read": bytes_read}, bytes_read / 2**20


def depthwise(channels, size):
    text = (f"m (float[1,{channels},{size},{size}] x) => (float[1,{channels},{size},{size}] y)\n<float[{channels},1,3,3] w = random(1, 0.3), "
            f"float[{channels},{channels},1,1] a = random(2, 0.1), float[{channels},{channels},1,1] b = random(3, 0.1)> {{\n"
            f"[in] h = Conv(x, a) [depthwise] g = Conv<group = {channels}, pads = [1, 1, 1, 1]>(h, w) [out] y = Conv(g, b) }}")
    work = {"flops": 2 * 9 * channels * size * size, "copy": 8 * channels * size * size}
    return f"depthwise 3 x 3, {channels} x {size} x {size}", text, work, 4 * channels * size * size / 2**20


def of_rows(name, node, size):
    weights = f"<float[{size}] scale = random(1, 1.0)> " if "scale" in node else ""
    text = f"m (float[{size},{size}] x) => (float[{size},{size}] y) {weights}{{ y = {node} }}"
    return f"{name}, {size} x {size}", text, {"copy": 8 * size * size}, MEGABYTES


ROWS = [
    product(128, 768, 768), product(128, 3072, 768), product(128, 768, 3072), product(128, 2304, 768), product(1024, 1024, 1024),
    batched(12, 128, 64, 128), batched(12, 128, 128, 64), one_row(4096, 4),
    depthwise(64, 112), depthwise(144, 56), depthwise(192, 28), depthwise(384, 14), depthwise(960, 7),
    of_rows("softmax", "Softmax(x)", 4096), of_rows("layer norm", "LayerNormalization(x, scale)", 4096),
    of_rows("gelu", 'Gelu<approximate = "tanh">(x)', 4096), of_rows("gelu by erf", "Gelu(x)", 4096),
]


def milliseconds(program, step):
    """The shortest time of a step; of the whole program where it is nothing but the kernel."""
    trace = FOLDER / "trace.json"
    flags = ["--random-inputs", 1, "--threads", 1, "--iterations", 12, "--warmup", 2]
    if not step:
        return json.loads(run_in(FOLDER, program, *flags, "--json"))["latency_ms"]["min"]
    run_in(FOLDER, program, *flags, "--trace", trace)
    events = json.loads(trace.read_text())
    events = events["traceEvents"] if isinstance(events, dict) else events
    return min(event["dur"] for event in events if event.get("ph") == "X" and event["name"] == step) / 1e3


def rates(program, megabytes=MEGABYTES):
    """Operations and bytes a second, by what they are of."""
    return {kind: 1e9 * float(rate) for kind, rate in zip(("flops", "read", "copy"), run_in(FOLDER, program, megabytes).split())}


def at_least(work, before, after):
    """The milliseconds that the work takes at the better of two measured rates, and what of it takes the longest."""
    return max((1e3 * amount / max(before[kind], after[kind]), kind) for kind, amount in work.items())


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--arch", default="x86-64-v3")
    options = parser.parse_args()
    FOLDER.mkdir(parents=True, exist_ok=True)
    machine, load = FOLDER / "bounds", Load()
    run_in(FOLDER, "g++", "-std=c++20", "-O2", f"-march={options.arch}", ROOT / "test/bench/bounds.cpp", "-o", machine)
    at_best = rates(machine)
    print(f"at best: {at_best['flops'] / 1e9:.0f} GFLOP/s, reading {at_best['read'] / 1e9:.1f} GB/s, "
          f"copying {at_best['copy'] / 1e9:.1f} GB/s")
    print(f"{'':<34}{'us':>9}{'rate':>12}   share of the bound")
    for name, text, work, megabytes in ROWS:
        model, program = FOLDER / "model.onnxtxt", FOLDER / "program"
        model.write_text(HEAD + text)
        run_in(FOLDER, WEFT, "compile", model, "-o", program, "--arch", options.arch, "--quiet")
        times, shares = [], []
        before = rates(machine, megabytes)
        for _ in range(options.rounds):
            times.append(milliseconds(program, "depthwise" if "depthwise" in name else ""))
            after = rates(machine, megabytes)
            bound, kind = at_least(work, before, after)
            shares.append(bound / times[-1])
            before = after
        share, low, high = median_interval(shares)
        rate = work[kind] / statistics.median(times) / 1e6
        unit = "GFLOP/s" if kind == "flops" else "GB/s"
        print(f"{name:<34}{1e3 * statistics.median(times):>9.1f}{rate:>6.1f} {unit:<7} {share:.2f} ({low:.2f} .. {high:.2f})", flush=True)
    print(f"{options.rounds} rounds; {load}" + (": run this again on a quiet machine" if load.of_others() > BUSY else ""))


if __name__ == "__main__":
    main()
