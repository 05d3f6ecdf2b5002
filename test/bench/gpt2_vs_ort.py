"""./dev bench: the GPT-2 sample, compiled, beside ONNX Runtime at one and two threads.

    gpt2_vs_ort.py [--layers 12 --width 768 --heads 12 --seq 128] [--threads 1,2] [--rounds 5 --iterations 10]
                   [--schedule samples/gpt2/tp2.yaml]     also the scheduled program, one thread a rank

Both are timed in turns, so that a machine that slows down slows both; a figure is the median over rounds of each
round's median. The outputs are compared before anything is timed.
"""

import argparse
import json
import pathlib
import statistics
import subprocess
import sys
import time

import numpy as np
import onnxruntime

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
WEFT = ROOT / "build" / "dev" / "weft"
FOLDER = ROOT / "build" / "bench"
VOCABULARY = 50257


def run(*command):
    done = subprocess.run([str(part) for part in command], stdout=subprocess.PIPE, text=True, cwd=FOLDER)
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))}: exit {done.returncode}\n{done.stdout}")
    return done.stdout


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
    text = run(program, "--input", f"input_ids={tokens_file}", "--threads", threads, "--warmup", 2,
               "--iterations", options.iterations, "--json")
    return json.loads(text)["latency_ms"]["median"]


def time_session(runtime, feed, options):
    times = []
    for iteration in range(options.iterations + 2):
        start = time.perf_counter()
        runtime.run(None, feed)
        if iteration >= 2:
            times.append((time.perf_counter() - start) * 1e3)
    return statistics.median(times)


def contenders(model, programs, tokens, tokens_file, options):
    """Rows of (name, threads, function that times one round)."""
    rows = []
    for threads in options.threads:
        runtime = session(model, threads)
        rows.append(("ONNX Runtime", threads, lambda runtime=runtime: time_session(runtime, {"input_ids": tokens}, options)))
        one = programs["one_rank"]
        rows.append(("weft", threads, lambda t=threads: time_program(one, tokens_file, t, options)))
    for name, program in programs.items():
        if name != "one_rank":
            rows.append((f"weft {name}", 1, lambda p=program: time_program(p, tokens_file, 1, options)))
    return rows


def parse(arguments):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    sizes = (("layers", 12), ("width", 768), ("heads", 12), ("seq", 128), ("rounds", 5), ("iterations", 10))
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
    rounds = [[timer() for _, _, timer in rows] for _ in range(options.rounds)]
    print(f"\nGPT-2, {options.layers} layers of width {options.width}, 1 x {options.seq} tokens, fp32; milliseconds")
    print(f"{'':<22}{'threads':>8}{'median':>9}{'best':>9}{'worst':>9}")
    for index, (name, threads, _) in enumerate(rows):
        times = [each[index] for each in rounds]
        print(f"{name:<22}{threads:>8}{statistics.median(times):>9.1f}{min(times):>9.1f}{max(times):>9.1f}")


if __name__ == "__main__":
    main(sys.argv[1:])
