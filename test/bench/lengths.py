"""./dev bench lengths: one executable for every batch and length of a request, beside executables that are pinned to one.

    lengths.py [--models gpt2,vit,t5] [--rounds 11] [--layers 6 --width 512]

GPT-2 (samples/gpt2), and a ViT-like and a T5-like model (test/models/transformers.py), are compiled with their dimensions
open to bounds, and once more for each request. Both take the request in turns on one thread; a ratio is that of the
shortest times of a round. Their results are compared first, and their memory at the bounds. Exit 5: slower beyond doubt, or
more memory.
"""

import argparse
import functools
import json
import pathlib
import sys

import numpy as np

from command import run_in
from load import BUSY, Load, median_interval

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "test" / "models"))
from transformers import Transformer  # noqa: E402

WEFT = ROOT / "build" / "dev" / "weft"
FOLDER = ROOT / "build" / "bench" / "lengths"
run = functools.partial(run_in, FOLDER)
HEADS, WORDS = 8, 500
LIMIT = 1.10
MEMORY_LIMIT = 1.001  # Lengths are separate buffers.
TOLERANCE = 1e-5  # Relative to the largest result: sums of another number of rows may be taken in another order.
SHORT_MS = 300  # Approximate length of a round.
# By model: the bounds of its open dimensions, and requests.
BOUNDS = {"gpt2": {"batch": 4, "seq": 256}, "vit": {"batch": 8}, "t5": {"batch": 4, "seq": 128, "dec": 64}}
REQUESTS = {"gpt2": ((1, 1), (1, 64), (1, 256), (4, 64), (3, 100)), "vit": ((1,), (2,), (3,), (5,), (8,)),
            "t5": ((1, 16, 1), (1, 128, 64), (4, 64, 32), (3, 100, 50), (2, 7, 64))}


def make_model(kind, options):
    if kind == "gpt2":
        run(sys.executable, ROOT / "samples" / "gpt2" / "make.py", "gpt2.onnx", "--layers", options.layers, "--width",
            options.width, "--heads", HEADS, "--vocab", WORDS, "--context", BOUNDS["gpt2"]["seq"])
        return
    model = getattr(Transformer(options.width, HEADS, options.layers, is_open=True), kind)()
    (FOLDER / f"{kind}.onnx").write_bytes(model.SerializeToString())


def inputs_of(kind, request):
    """Flags of the inputs of a request, which are written to files."""
    random = np.random.default_rng(0)
    if kind == "vit":
        arrays = {"image": random.standard_normal((*request, 3, 64, 64)).astype(np.float32)}
    else:
        names = ["input_ids"] if kind == "gpt2" else ["ids", "written"]
        arrays = {name: random.integers(0, WORDS, (request[0], rows)) for name, rows in zip(names, request[1:])}
    for name, array in arrays.items():
        np.save(FOLDER / f"{name}.npy", array)
    return [f"--input={name}={name}.npy" for name in arrays]


def compile_program(kind, name, dims, sign):
    run(WEFT, "compile", f"{kind}.onnx", *(f"--dim={dim}{sign}{extent}" for dim, extent in dims.items()), "-o", name, "--quiet")
    return FOLDER / name


def result(kind, program, inputs):
    run(program, *inputs, "--output-dir", "out", "--threads", 1)
    return np.load(FOLDER / "out" / ("logits.npy" if kind == "gpt2" else "y.npy"))


def milliseconds(program, inputs, iterations):
    told = run(program, *inputs, "--threads", 1, "--iterations", iterations, "--json")
    return json.loads(told.splitlines()[-1])["latency_ms"]["min"]


def memory_bytes(program):
    """With the weights, among which a pinned program has the positions and masks of its length."""
    sizes = json.loads(run(program, "--info"))["memory_bytes"]
    return sizes["own"] + sizes["weights"]


def measure(kind, opened, request, rounds):
    """The times of both programs, by rounds."""
    inputs, label = inputs_of(kind, request), "x".join(map(str, request))
    pinned = compile_program(kind, f"{kind}_{label}", dict(zip(BOUNDS[kind], request)), "=")
    wanted, found = result(kind, pinned, inputs), result(kind, opened, inputs)
    error = np.abs(found - wanted).max() / np.abs(wanted).max()
    if found.shape != wanted.shape or not error <= TOLERANCE:  # nor is NaN
        sys.exit(f"{kind}, {label}: results differ by {error:.1e}")
    iterations = max(3, int(SHORT_MS / milliseconds(pinned, inputs, 1)))
    times = {program: [] for program in (opened, pinned)}
    for turn in range(rounds):
        for program in (opened, pinned) if turn % 2 else (pinned, opened):
            times[program].append(milliseconds(program, inputs, iterations))
    return times[opened], times[pinned]


def measure_model(kind, options):
    """Prints a line for each request; whether one is slower, or the memory larger, than may be."""
    make_model(kind, options)
    opened = compile_program(kind, f"{kind}_open", BOUNDS[kind], "<=")
    at_bounds = compile_program(kind, f"{kind}_bounds", BOUNDS[kind], "=")
    memory, most = memory_bytes(opened), memory_bytes(at_bounds)
    bounds = ", ".join(f"{dim} <= {bound}" for dim, bound in BOUNDS[kind].items())
    print(f"{kind}, {bounds}: {memory} bytes, {most} pinned to the bounds ({memory / most:.4f}, at most {MEMORY_LIMIT})")
    is_bad = memory > MEMORY_LIMIT * most
    for request in REQUESTS[kind]:
        ours, theirs = measure(kind, opened, request, options.rounds)
        middle, low, high = median_interval([a / b for a, b in zip(ours, theirs)])
        is_bad |= low > LIMIT
        print(f"{'x'.join(map(str, request)):>10} {min(ours):10.3f} ms, pinned {min(theirs):10.3f} ms; ratio {middle:.3f} "
              f"({low:.3f} .. {high:.3f}), at most {LIMIT}", flush=True)
    return is_bad


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", default="gpt2,vit,t5")
    for name, default in (("rounds", 11), ("layers", 6), ("width", 512)):
        parser.add_argument(f"--{name}", type=int, default=default)
    options = parser.parse_args()
    FOLDER.mkdir(parents=True, exist_ok=True)
    load = Load()
    print(f"{options.layers} layers of width {options.width}, one thread")
    is_bad = [measure_model(kind, options) for kind in options.models.split(",")]
    print(f"{options.rounds} rounds; {load}" + (": run this again on a quiet machine" if load.of_others() > BUSY else ""))
    sys.exit(5 if any(is_bad) else 0)


if __name__ == "__main__":
    main()
