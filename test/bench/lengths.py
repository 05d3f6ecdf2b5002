"""./dev bench lengths: one executable for every batch and length of a request, beside executables that are pinned to one.

    lengths.py [--batch 4] [--seq 256] [--requests 1x1,1x64,1x256,4x64,3x100] [--rounds 7] [--layers 6 --width 512]

GPT-2 (samples/gpt2) is compiled with its batch and length open to bounds, and once more for each request. Both take the
request in turns on one thread; a time is the shortest of all rounds. Their logits are compared first.
"""

import argparse
import json
import pathlib
import subprocess
import sys

import numpy as np

from load import BUSY, Load

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
WEFT = ROOT / "build" / "dev" / "weft"
FOLDER = ROOT / "build" / "bench" / "lengths"
WORDS, HEADS = 5000, 8
TOLERANCE = 1e-5  # of the largest logit: sums of another number of rows may be taken in another order
SHORT_MS = 300  # a round lasts about so long


def run(*command):
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True, cwd=FOLDER)
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))}: exit {done.returncode}\n{done.stderr}")
    return done.stdout


def compile_program(name, *dims):
    run(WEFT, "compile", "gpt2.onnx", *(f"--dim={dim}" for dim in dims), "-o", name, "--quiet")
    return FOLDER / name


def logits(program):
    run(program, "--input", "input_ids=ids.npy", "--output-dir", "out", "--threads", 1)
    return np.load(FOLDER / "out" / "logits.npy")


def milliseconds(program, iterations):
    told = run(program, "--input", "input_ids=ids.npy", "--threads", 1, "--iterations", iterations, "--json")
    return json.loads(told.splitlines()[-1])["latency_ms"]["min"]


def measure(bounded, batch, seq, rounds):
    np.save(FOLDER / "ids.npy", np.random.default_rng(0).integers(0, WORDS, (batch, seq)))
    pinned = compile_program(f"pinned_{batch}x{seq}", f"batch={batch}", f"seq={seq}")
    wanted, found = logits(pinned), logits(bounded)
    error = np.abs(found - wanted).max() / np.abs(wanted).max()
    if found.shape != wanted.shape or not error <= TOLERANCE:  # nor is NaN
        sys.exit(f"{batch} x {seq}: results differ by {error:.1e}")
    iterations = max(3, int(SHORT_MS / milliseconds(pinned, 1)))
    times = {program: [] for program in (bounded, pinned)}
    for turn in range(rounds):
        for program in (bounded, pinned) if turn % 2 else (pinned, bounded):
            times[program].append(milliseconds(program, iterations))
    return min(times[bounded]), min(times[pinned])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--batch", type=int, default=4, help="its bound")
    parser.add_argument("--seq", type=int, default=256, help="its bound")
    parser.add_argument("--requests", default="1x1,1x64,1x256,4x64,3x100")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--layers", type=int, default=6)
    parser.add_argument("--width", type=int, default=512)
    options = parser.parse_args()
    FOLDER.mkdir(parents=True, exist_ok=True)
    run(sys.executable, ROOT / "samples" / "gpt2" / "make.py", "gpt2.onnx", "--layers", options.layers, "--width", options.width,
        "--heads", HEADS, "--vocab", WORDS, "--context", options.seq)
    bounded = compile_program("bounded", f"batch<={options.batch}", f"seq<={options.seq}")
    load = Load()
    print(f"GPT-2, {options.layers} layers of width {options.width}, one thread; batch <= {options.batch}, seq <= {options.seq}")
    print(f"{'request':>10} {'bounded, ms':>12} {'pinned, ms':>12} {'ratio':>7}")
    for request in options.requests.split(","):
        batch, seq = map(int, request.split("x"))
        ours, theirs = measure(bounded, batch, seq, options.rounds)
        print(f"{request:>10} {ours:12.3f} {theirs:12.3f} {ours / theirs:7.3f}", flush=True)
    print(f"{options.rounds} rounds; {load}" + (": run this again on a quiet machine" if load.of_others() > BUSY else ""))


if __name__ == "__main__":
    main()
