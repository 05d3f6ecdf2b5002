"""./dev bench tune_shapes: what `weft tune` finds for single products and convolutions, beside the best of all that is legal.

    tune_shapes.py [SHAPE...] [--threads N]

The shapes are from networks that `./dev bench` runs. They are products of GPT-2, BERT and a Llama for 1, 16 and 128
rows, and convolutions of ResNet, MobileNet, DenseNet and ResNeXt. Each convolution is between kernels that accept any
layout of its image. `tune` has at most 100 trials for each. Then `tune --all` measures every legal strategy with every
parameter, with all threads and with one, in one program and in turns. `default`, `tuned` and `best` are from that
program: milliseconds of the shortest launch. `fraction` is best / tuned. `again` is the same for a second such program,
with the best of the first, since the shortest of many noisy times is too short. A fraction below 0.95 in both is exit
1.
"""

import argparse
import re
import sys
import time

from command import run_in
from load import Load
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
WEFT = ROOT / "build" / "dev" / "weft"
FOLDER = ROOT / "build" / "bench" / "tune_shapes"
MOST_TRIALS, ENOUGH = 100, 0.95
HEAD = '<ir_version: 10, opset_import: ["" : 20]>\n'


def product(rows, steps, columns):
    return (f"m (float[{rows},{steps}] x) => (float[{rows},{columns}] y) <float[{steps},{columns}] w = random(1, 0.05), float[{columns}] b = random(2, 0.5)>\n"
            "{ [kernel] p = MatMul(x, w)  [bias] q = Add(p, b)  [act] y = Relu(q) }")


def convolution(channels, size, filters, window, stride=1, group=1):
    """Between a pointwise kernel and a pool."""
    pad = window // 2
    after = (size + 2 * pad - window) // stride + 1
    return (f"m (float[1,{channels},{size},{size}] x) => (float[1,{filters},1,1] y)\n"
            f"<float[{filters},{channels // group},{window},{window}] w = random(1, {1 / (window * window * channels // group) ** 0.5:.4f}), "
            f"float[{filters}] b = random(2, 0.5)>\n"
            f"{{ [before] s = Sigmoid(x)  [kernel] c = Conv<pads = [{pad}, {pad}, {pad}, {pad}], strides = [{stride}, {stride}], group = {group}>(s, w, b)\n"
            f"  [act] r = Relu(c)  [after] y = GlobalAveragePool(r) }}")


SHAPES = {
    "gpt2 1 x 768 x 2304": product(1, 768, 2304),
    "gpt2 16 x 768 x 3072": product(16, 768, 3072),
    "gpt2 128 x 3072 x 768": product(128, 3072, 768),
    "bert 16 x 768 x 768": product(16, 768, 768),
    "bert 128 x 768 x 768": product(128, 768, 768),
    "llama 1 x 2048 x 5632": product(1, 2048, 5632),
    "llama 16 x 2048 x 2048": product(16, 2048, 2048),
    "llama 128 x 2048 x 2048": product(128, 2048, 2048),
    "bert pooler 1 x 768 x 768": product(1, 768, 768),
    "resnet fc 1 x 2048 x 1000": product(1, 2048, 1000),
    "resnet 7x7 s2, 3 to 64, 224": convolution(3, 224, 64, 7, 2),
    "resnet 1x1, 64 to 256, 56": convolution(64, 56, 256, 1),
    "resnet 3x3, 64 to 64, 56": convolution(64, 56, 64, 3),
    "resnet 3x3, 256 to 256, 14": convolution(256, 14, 256, 3),
    "resnet 3x3, 512 to 512, 7": convolution(512, 7, 512, 3),
    "densenet 1x1, 256 to 128, 28": convolution(256, 28, 128, 1),
    "densenet 3x3, 128 to 32, 14": convolution(128, 14, 32, 3),
    "mobilenet depthwise 3x3, 144, 56": convolution(144, 56, 144, 3, 1, 144),
    "mobilenet depthwise 3x3 s2, 240, 28": convolution(240, 28, 240, 3, 2, 240),
    "resnext 3x3, 128 to 128 in 32 groups, 28": convolution(128, 28, 128, 3, 1, 32),
}


def rows_of(table):
    """For each strategy that was measured for the kernel: milliseconds, and whether it is chosen."""
    rows = {}
    for line in table.splitlines():
        cells = [cell for cell in re.split(r"  +", line.strip()) if cell]
        if cells[:1] == ["kernel"] and len(cells) > 2:
            rows[cells[1]] = (float(cells[2]), cells[-1] == "chosen")
    return rows


def tune(model, name, *flags):
    """The rows and the seconds; nothing is known from before."""
    best = FOLDER / f"{name}.yaml"
    Path(f"{best}.trials").unlink(missing_ok=True)
    began = time.monotonic()
    table = run_in(FOLDER, WEFT, "tune", model, "--schedule", FOLDER / "plain.yaml", "-o", best, "--kernel", "kernel", "--quiet", *flags)
    return rows_of(table), "kernels:" in best.read_text(), time.monotonic() - began


def measure(name, number, flags):
    """The cells of the table's row, and whether what is tuned is near the best."""
    model = FOLDER / f"shape{number}.onnxtxt"
    model.write_text(HEAD + SHAPES[name])
    tuned, is_pinned, seconds = tune(model, f"shape{number}", *flags)
    every = [tune(model, f"every{number}_{again}", "--all", *flags)[0] for again in range(2)]
    chosen = next(strategy for strategy, (_, is_chosen) in tuned.items() if is_chosen) if is_pinned else "as it is"
    best = min(every[0], key=lambda strategy: every[0][strategy][0])
    fractions = [rows[best][0] / rows[chosen][0] for rows in every]
    times = [every[0][strategy][0] for strategy in ("as it is", chosen, best)]
    cells = [name, len(tuned) - 1, *(f"{ms:.4f}" for ms in times), f"{fractions[0]:.2f}", f"{fractions[1]:.2f}", f"{seconds:.0f}", chosen, best, len(every[0]) - 1]
    return cells, len(tuned) <= MOST_TRIALS and max(fractions) >= ENOUGH


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("shapes", nargs="*")
    parser.add_argument("--threads", type=int)
    options = parser.parse_args()
    FOLDER.mkdir(parents=True, exist_ok=True)
    (FOLDER / "plain.yaml").write_text("weft: 1\n")
    flags = ["--run-args", f"--threads {options.threads}"] if options.threads else []
    load = Load()
    print("| shape | trials | default, ms | tuned | best | fraction | again | seconds | chosen | best of all | all |\n|---|---|---|---|---|---|---|---|---|---|---|")
    well = []
    for number, name in enumerate(SHAPES):
        if options.shapes and not any(part in name for part in options.shapes):
            continue
        cells, is_well = measure(name, number, flags)
        well.append(is_well)
        print("| " + " | ".join(map(str, cells)) + " |", flush=True)
    print(f"{sum(well)} of {len(well)} reach {ENOUGH} of the best; {load}")
    return 0 if all(well) else 1


if __name__ == "__main__":
    sys.exit(main())
