"""./dev bench convolution_grid: the strategy that is chosen for each of some 300 convolutions, beside the best legal one.

    convolution_grid.py [PART...] [--every N] [--skip N] [--take N] [--arch LEVEL] [--threads N] [--worst 1.3] [--mean 1.03]

The shapes are 1-D and 2-D, with strides, few and many channels, depthwise and in groups. A PART selects the shapes
whose names begin with it. --every takes each Nth of them, --skip and --take a piece of the rest. --arch is the level of
CPUs, by default this machine's. Each convolution stands between kernels that accept any layout of its image. Some
shapes make a model. `weft tune --all` measures every legal strategy with every parameter of it, in one program and in
turns. Other load on the machine makes times longer, never shorter, so each figure is the shortest. A shape with a ratio
above 1.1 is measured by a second program. While its ratio is above --worst, up to three more programs measure it. The
shortest time of all programs counts, for the chosen strategy and for the best one. Exit 1 if a ratio is above --worst,
or the geometric mean above --mean.
"""

import argparse
import math
import re
import sys
from pathlib import Path

from command import run_in
from load import Load

ROOT = Path(__file__).resolve().parent.parent.parent
WEFT = ROOT / "build" / "dev" / "weft"
FOLDER = ROOT / "build" / "bench" / "convolution_grid"
TOGETHER, SUSPICIOUS, MOST_PROGRAMS = 12, 1.1, 5
MOST_OPERATIONS, LEAST_OPERATIONS = 1.5e8, 2e4


class Shape:
    """Extents of one convolution; `rows` is 1 for a line."""

    def __init__(self, kind, channels, rows, columns, filters, window, stride, group):
        self.channels, self.rows, self.columns, self.filters = channels, rows, columns, filters
        self.window, self.stride, self.group, self.is_line = window, stride, group, rows == 1
        size = f"{columns}" if self.is_line else f"{rows}x{columns}"
        self.name = f"{kind} {channels} to {filters}, {size}, window {window}, stride {stride}, groups {group}"

    def operations(self):
        outputs = math.prod(-(-extent // self.stride) for extent in (self.rows, self.columns) if extent > 1)
        return 2 * outputs * self.filters * self.channels // self.group * self.window ** (1 if self.is_line else 2)

    def nodes(self, number):
        """Inputs, outputs, weights and nodes of the shape in ONNX's text syntax."""
        n, ndim = number, 1 if self.is_line else 2
        extents = f"{self.columns}" if self.is_line else f"{self.rows},{self.columns}"
        windows, ones = ",".join([str(self.window)] * ndim), ",".join(["1"] * ndim)
        pad = 0 if self.stride > self.window // 2 and self.is_line else self.window // 2
        pads, strides = ", ".join([str(pad)] * 2 * ndim), ", ".join([str(self.stride)] * ndim)
        per_group = self.channels // self.group
        scale = (per_group * self.window ** ndim) ** -0.5
        return (f"float[1,{self.channels},{extents}] x{n}", f"float[1,{self.filters},{ones}] y{n}",
                f"float[{self.filters},{per_group},{windows}] w{n} = random({n + 1}, {scale:.4f})",
                f"[before{n}] s{n} = Sigmoid(x{n})  [k{n}] c{n} = Conv<pads = [{pads}], strides = [{strides}], "
                f"group = {self.group}>(s{n}, w{n})  [act{n}] r{n} = Relu(c{n})  [after{n}] y{n} = GlobalAveragePool(r{n})")


def all_shapes():
    """Every combination below, without those that take too long or nothing."""
    for channels in (1, 4, 16, 64, 256):
        for length in (64, 640, 4000):
            for filters in (1, 8, 64, 258):
                for window, stride in ((3, 1), (9, 1), (25, 2), (256, 128)):
                    if window <= length:
                        yield Shape("line", channels, 1, length, filters, window, stride, 1)
    for channels in (1, 3, 16, 64, 256):
        for size in (7, 14, 28, 56, 112):
            for filters in (3, 16, 64, 256):
                for window, stride in ((1, 1), (3, 1), (3, 2), (5, 1), (7, 2)):
                    yield Shape("plane", channels, size, size, filters, window, stride, 1)
    for channels in (8, 24, 48, 144, 384):
        for size in (7, 14, 28, 56):
            for window, stride in ((3, 1), (3, 2), (5, 1), (7, 1), (9, 1)):
                yield Shape("depthwise", channels, size, size, channels, window, stride, channels)
    for group, per_group, filters in ((2, 16, 16), (8, 4, 4), (32, 4, 4), (16, 1, 4), (16, 1, 8), (8, 16, 1), (32, 8, 8)):
        for size in (7, 14, 28):
            for window in (1, 3, 5):
                yield Shape("groups", group * per_group, size, size, group * filters, window, 1, group)


def grid():
    """Every second one of the shapes that are left."""
    fit = [s for s in all_shapes() if LEAST_OPERATIONS <= s.operations() <= MOST_OPERATIONS]
    return fit[::2]


def model_of(shapes):
    inputs, outputs, weights, nodes = zip(*(shape.nodes(i) for i, shape in enumerate(shapes)))
    return (f'<ir_version: 10, opset_import: ["" : 20]>\nm ({", ".join(inputs)}) => ({", ".join(outputs)})\n'
            f'<{", ".join(weights)}>\n{{\n  ' + "\n  ".join(nodes) + "\n}\n")


def measure(name, shapes, options):
    """For each shape the milliseconds of each strategy; "as it is" is the chosen one."""
    model, schedule, best = FOLDER / f"{name}.onnxtxt", FOLDER / "plain.yaml", FOLDER / f"{name}.yaml"
    model.write_text(model_of(shapes))
    schedule.write_text("weft: 1\n")
    Path(f"{best}.trials").unlink(missing_ok=True)
    table = run_in(FOLDER, WEFT, "tune", model, "--schedule", schedule, "-o", best, "--all", "--quiet", "--arch", options.arch,
                   "--run-args", f"--threads {options.threads}")
    times = [{} for _ in shapes]
    for line in table.splitlines():
        cells = re.split(r"  +", line.strip())
        if len(cells) > 2 and re.fullmatch(r"k\d+", cells[0]):
            times[int(cells[0][1:])][cells[1]] = float(cells[2])
    return times


def ratio_of(times):
    return times["as it is"] / min(times.values()) if times else 1.0


def measure_until_clear(name, shapes, options):
    """The times of each shape: the shortest of as many programs as it takes."""
    shortest, left = [{} for _ in shapes], list(range(len(shapes)))
    for program in range(MOST_PROGRAMS):
        for i, times in zip(left, measure(f"{name}_{program}", [shapes[i] for i in left], options)):
            for strategy, ms in times.items():
                shortest[i][strategy] = min(ms, shortest[i].get(strategy, ms))
        left = [i for i in left if ratio_of(shortest[i]) > (SUSPICIOUS if program == 0 else options.worst)]
        if not left:
            break
    return shortest


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*")
    parser.add_argument("--every", type=int, default=1)
    parser.add_argument("--skip", type=int, default=0)
    parser.add_argument("--take", type=int)
    parser.add_argument("--arch", default="native")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--worst", type=float, default=1.3)
    parser.add_argument("--mean", type=float, default=1.03)
    options = parser.parse_args()
    FOLDER.mkdir(parents=True, exist_ok=True)
    shapes = [s for s in grid() if not options.parts or s.name.startswith(tuple(options.parts))][::options.every]
    shapes = shapes[options.skip:][:options.take]
    load, ratios = Load(), []
    print("| convolution | chosen, ms | best, ms | ratio | best strategy |\n|---|---|---|---|---|")
    for first in range(0, len(shapes), TOGETHER):
        together = shapes[first:first + TOGETHER]
        measured = measure_until_clear(f"shapes{options.skip + first}", together, options)
        for shape, times in zip(together, measured):
            ratios.append(ratio_of(times))
            best = min(times, key=times.get) if times else "the only one"
            cells = (f"{times['as it is']:.4f}", f"{times[best]:.4f}") if times else ("", "")
            print(f"| {shape.name} | {cells[0]} | {cells[1]} | {ratios[-1]:.2f} | {best} |", flush=True)
    mean, worst = math.exp(sum(map(math.log, ratios)) / len(ratios)), max(ratios)
    print(f"{len(ratios)} convolutions: geometric mean {mean:.3f}, worst {worst:.2f}, "
          f"{sum(ratio > options.worst for ratio in ratios)} above {options.worst}; {load}")
    return 0 if worst <= options.worst and mean <= options.mean else 1


if __name__ == "__main__":
    sys.exit(main())
