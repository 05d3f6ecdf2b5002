"""./dev bench: the GPT-2 sample, compiled, beside ONNX Runtime at one and two threads.

    gpt2_vs_ort.py [--layers 12 --width 768 --heads 12 --seq 128] [--threads 1,2] [--rounds 10 --iterations 6]
                   [--schedule samples/gpt2/tp2.yaml]     also the scheduled program, one thread a rank

All are timed in turns, every second round backwards, so that a machine that slows down slows all alike. A time is the
median over rounds of each round's median; a ratio is the median over rounds of ours / theirs within one round. The
outputs are compared before anything is timed, and the last line says how much of the machine others used meanwhile.
"""

import argparse
import functools
import json
import os
import pathlib
import statistics
import sys
import time

import numpy as np
import onnxruntime

from command import run_in
from load import BUSY, Load

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
WEFT = ROOT / "build" / "dev" / "weft"
FOLDER = ROOT / "build" / "bench"
run = functools.partial(run_in, FOLDER)
VOCABULARY = 50257
WARM_UP = 2
PAUSE_SECONDS = 0.1  # threads of the one before that still spin for work have gone to sleep


def build(options):
    """The model and one program for each schedule (None: one rank)."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    model = FOLDER / f"gpt2_{options.layers}x{options.width}.onnx"
    if not model.exists():
        run(sys.executable, ROOT / "samples" / "gpt2" / "make.py", model, "--layers", options.layers,
            "--width", options.width, "--heads", options.heads)
    programs = {}
    for schedule in [None, *options.schedule]:
        name = pathlib.Path(schedule).stem if schedule else "one_rank"
        programs[name] = FOLDER / f"{model.stem}_{name}"
        start = time.monotonic()
        run(WEFT, "compile", model, "--dim", "batch=1", "--dim", f"seq={options.seq}", "-o", programs[name],
            *(["--schedule", pathlib.Path(schedule).resolve()] if schedule else []))
        print(f"compiled {name} in {time.monotonic() - start:.1f} s")
    return model, programs


def session(model, threads):
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
    return onnxruntime.InferenceSession(str(model), options, ["CPUExecutionProvider"])


def check_equal(name, program, tokens_file, expected):
    run(program, "--input", f"input_ids={tokens_file}", "--output-dir", FOLDER / "out")
    error = np.abs(np.load(FOLDER / "out" / "logits.npy") - expected).max() / np.abs(expected).max()
    print(f"{name}: differs from ONNX Runtime by {error:.1e} of the largest value")
    if error > 1e-4:
        sys.exit(5)


def time_program(program, tokens_file, threads, options):
    text = run(program, "--input", f"input_ids={tokens_file}", "--threads", threads, "--warmup", WARM_UP,
               "--iterations", options.iterations, "--json")
    return json.loads(text)["latency_ms"]["median"]


def time_session(runtime, feed, options):
    times = []
    for _ in range(WARM_UP + options.iterations):
        start = time.perf_counter()
        runtime.run(None, feed)
        times.append((time.perf_counter() - start) * 1e3)
    return statistics.median(times[WARM_UP:])


def contenders(model, programs, tokens, tokens_file, options):
    """Rows of (name, threads, function that times one round, row that it is compared with or None)."""
    rows = []
    for threads in options.threads:
        runtime = session(model, threads)
        feed = {"input_ids": tokens}
        rows.append(("ONNX Runtime", threads, lambda r=runtime, f=feed: time_session(r, f, options), None))
        one = programs["one_rank"]
        rows.append(("weft", threads, lambda t=threads: time_program(one, tokens_file, t, options), len(rows) - 1))
    for name, program in programs.items():
        if name != "one_rank":
            rows.append((f"weft {name}", 1, lambda p=program: time_program(p, tokens_file, 1, options), None))
    return rows


def time_round(rows, backwards):
    times = [0.0] * len(rows)
    order = range(len(rows))
    for index in reversed(order) if backwards else order:
        time.sleep(PAUSE_SECONDS)
        times[index] = rows[index][2]()
    return times


def print_table(rows, rounds, options):
    print(f"\nGPT-2, {options.layers} layers of width {options.width}, 1 x {options.seq} tokens, fp32; milliseconds")
    print(f"{'':<22}{'threads':>8}{'median':>9}{'best':>9}{'worst':>9}{'ratio':>8}")
    for index, (name, threads, _, other) in enumerate(rows):
        times = [each[index] for each in rounds]
        line = f"{name:<22}{threads:>8}{statistics.median(times):>9.1f}{min(times):>9.1f}{max(times):>9.1f}"
        if other is not None:
            ratios = sorted(each[index] / each[other] for each in rounds)
            line += f"{statistics.median(ratios):>8.2f}   {ratios[0]:.2f} .. {ratios[-1]:.2f}"
        print(line)
    print("ratio: weft's time / ONNX Runtime's at as many threads, in the same round; then the smallest and the largest")


def parse(arguments):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    sizes = (("layers", 12), ("width", 768), ("heads", 12), ("seq", 128), ("rounds", 10), ("iterations", 6))
    for name, default in sizes:
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--threads", type=lambda text: [int(part) for part in text.split(",")], default=[1, 2])
    parser.add_argument("--schedule", action="append", default=[])
    return parser.parse_args(arguments)


def main(arguments):
    options = parse(arguments)
    model, programs = build(options)
    tokens = np.random.default_rng(0).integers(0, VOCABULARY, (1, options.seq))
    tokens_file = FOLDER / "tokens.npy"
    np.save(tokens_file, tokens)
    expected = session(model, options.threads[-1]).run(None, {"input_ids": tokens})[0]
    for name, program in programs.items():
        check_equal(name, program, tokens_file, expected)
    rows = contenders(model, programs, tokens, tokens_file, options)
    load, start = Load(), time.monotonic()
    rounds = [time_round(rows, number % 2 == 1) for number in range(options.rounds)]
    print_table(rows, rounds, options)
    print(f"{options.rounds} rounds in {time.monotonic() - start:.0f} s; {load}"
          + (": run this again on a quiet machine" if load.of_others() > BUSY else ""))


if __name__ == "__main__":
    main(sys.argv[1:])
