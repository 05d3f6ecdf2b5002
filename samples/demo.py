"""./dev demo: GPT-2 of a laptop's size, compiled for one rank and for four, run, compared, explained, timed."""

import json
import pathlib
import subprocess
import sys

import numpy as np

ROOT = pathlib.Path(__file__).resolve().parent.parent
WEFT = ROOT / "build" / "dev" / "weft"
FOLDER = ROOT / "build" / "demo"
SIZE = ["--layers", "4", "--width", "256", "--heads", "8", "--context", "256"]
SEQ, VOCABULARY = 64, 50257
DIMS = ["--dim", "batch=1", "--dim", f"seq={SEQ}"]
SCHEDULE = ROOT / "samples" / "gpt2" / "tp4.yaml"


def shown(path):
    return str(path.relative_to(ROOT)) if isinstance(path, pathlib.Path) else str(path)


def run(*command, quiet=False):
    """Runs a command that is shown as a reader would type it; its end is ours if it fails."""
    if not quiet:
        print(f"\n$ {' '.join(shown(part) for part in command if part != sys.executable)}", flush=True)
    done = subprocess.run([str(part) for part in command], stdout=subprocess.PIPE, text=True, cwd=ROOT)
    if done.returncode != 0:
        print(done.stdout)
        sys.exit(done.returncode)
    return done.stdout


def compile_model(model, program, *flags):
    print(run(WEFT, "compile", model, *DIMS, *flags, "-o", program), end="")


def outputs(program, tokens):
    folder = FOLDER / f"{program.name}_out"
    run(program, "--input", f"input_ids={tokens.relative_to(ROOT)}", "--output-dir", folder)
    return np.load(folder / "logits.npy")


def print_latency(programs):
    print(f"\n{'milliseconds':<14}{'median':>9}{'min':>9}{'p90':>9}")
    for title, program in programs:
        text = run(program, "--random-inputs", "0", "--warmup", "3", "--iterations", "20", "--json", quiet=True)
        times = json.loads(text)["latency_ms"]
        print(f"{title:<14}{times['median']:>9.2f}{times['min']:>9.2f}{times['p90']:>9.2f}")


def main():
    FOLDER.mkdir(parents=True, exist_ok=True)
    model, tokens = FOLDER / "gpt2.onnx", FOLDER / "tokens.npy"
    one, four = FOLDER / "gpt2_1", FOLDER / "gpt2_tp4"
    run(sys.executable, ROOT / "samples" / "gpt2" / "make.py", model, *SIZE)
    np.save(tokens, np.random.default_rng(0).integers(0, VOCABULARY, (1, SEQ)))
    compile_model(model, one)
    print(f"\n{SCHEDULE.read_text()}", end="")
    compile_model(model, four, "--schedule", SCHEDULE)
    explanation = run(WEFT, "explain", model, *DIMS, "--schedule", SCHEDULE).split("\n")
    print("\n".join(explanation[:40]))
    if len(explanation) > 40:
        print(f"... and {len(explanation) - 40} more lines")
    first, second = outputs(one, tokens), outputs(four, tokens)
    error = np.abs(first - second).max() / np.abs(first).max()
    print(f"\nlogits {list(first.shape)}: four ranks differ from one by {error:.1e} of the largest value")
    print_latency([("one rank", one), ("four ranks", four)])
    if error > 2e-5:
        sys.exit(5)


if __name__ == "__main__":
    main()
