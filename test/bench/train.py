"""./dev bench train: a step of training GPT-2 (AdamW, gradients clipped by their norm) beside PyTorch, eager and compiled.

    train.py [--rounds 3 --steps 14 --threads 1,2 --vocabs 50257,4096 --layers 4 --width 256 --batch 4 --context 64]

The three run in turns, each round a process of each; a time is the median of the rounds' medians. Memory is the peak of the whole
process, and what comes before the first step is what weft compile takes, or the first step of the other two.
"""

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import time

import numpy as np

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "test"))
from exported_anew import interpreter  # noqa: E402

SCHEDULE = """weft: 1
dims: {{batch: {batch}, seq: {context}}}
train:
  loss: {{cross_entropy: {{scores: logits, labels: input_ids, shift: 1}}}}
  optimizer: {{adamw: {{rate: 1e-4, betas: [0.9, 0.95], weight_decay: 0.1}}}}
  clip: {{norm: 1.0}}
"""


def run(command):
    """What the command prints as JSON, and the MiB that it had at most."""
    process = subprocess.Popen([str(part) for part in command], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    out, err = process.stdout.read(), process.stderr.read()
    _, status, used = os.wait4(process.pid, 0)
    if status != 0:
        sys.exit(f"{command[0]}: {err[-500:]}")
    return json.loads(out.strip().splitlines()[-1]), used.ru_maxrss / 1024


class Contest:
    def __init__(self, options, vocab, folder, python):
        self.options, self.folder, self.python = options, folder, python
        sizes = {"layers": options.layers, "width": options.width, "heads": options.heads, "vocab": vocab, "context": options.context}
        self.flags = [word for name, value in sizes.items() for word in (f"--{name}", value)]
        self.tokens = folder / "tokens.npy"
        tokens = np.random.default_rng(0).integers(0, vocab, options.batch * options.context * options.steps)
        np.save(self.tokens, tokens.astype(np.uint16))
        model, schedule = folder / "gpt2.onnx", folder / "train.yaml"
        subprocess.run([sys.executable, ROOT / "samples/gpt2/make.py", model, *map(str, self.flags)], check=True,
                       stdout=subprocess.DEVNULL)
        schedule.write_text(SCHEDULE.format(batch=options.batch, context=options.context))
        begin = time.monotonic()
        subprocess.run([ROOT / "build/dev/weft", "compile", model, "--schedule", schedule, "-o", folder / "gpt2", "--quiet"],
                       check=True, stdout=subprocess.DEVNULL)
        self.compile_seconds = time.monotonic() - begin

    def weft(self, threads):
        found, memory = run([self.folder / "gpt2", "--data", f"input_ids={self.tokens}", "--steps", self.options.steps,
                             "--threads", threads, "--json"])
        return found["step_ms"], memory, self.compile_seconds

    def torch(self, threads, mode):
        found, memory = run([self.python, ROOT / "test/bench/train_torch.py", self.tokens, self.options.steps, threads, mode,
                             *self.flags, "--batch", self.options.batch])
        return found["step_ms"], memory, found["first_s"]

    def rounds(self, threads):
        sides = {"weft": lambda: self.weft(threads), "torch eager": lambda: self.torch(threads, "eager"),
                 "torch compiled": lambda: self.torch(threads, "compiled")}
        found = {name: [] for name in sides}
        for _ in range(self.options.rounds):
            for name, side in sides.items():
                found[name].append(side())
        return {name: [statistics.median(column) for column in zip(*rows)] for name, rows in found.items()}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    numbers = {"rounds": 3, "steps": 14, "layers": 4, "width": 256, "heads": 4, "batch": 4, "context": 64}
    for name, value in numbers.items():
        parser.add_argument(f"--{name}", type=int, default=value)
    parser.add_argument("--threads", default="1,2")
    parser.add_argument("--vocabs", default="50257,4096")
    options = parser.parse_args()
    python, reason = interpreter(ROOT / "test/training/requirements.txt", "training_make")
    if not python:
        sys.exit(f"PyTorch is not there: {reason}")
    print(f"{'vocabulary':<12}{'threads':>7}  {'':<16}{'ms a step':>10}{'weft / it':>11}{'MiB':>7}{'first s':>9}")
    ratios, memory = [], []
    for vocab in map(int, options.vocabs.split(",")):
        folder = ROOT / "build/bench/train" / str(vocab)
        folder.mkdir(parents=True, exist_ok=True)
        contest = Contest(options, vocab, folder, python)
        for threads in map(int, options.threads.split(",")):
            found = contest.rounds(threads)
            for name, (ms, mib, first) in found.items():
                print(f"{vocab:<12}{threads:>7}  {name:<16}{ms:>10.1f}{found['weft'][0] / ms:>11.2f}{mib:>7.0f}{first:>9.1f}", flush=True)
            better = min(("torch eager", "torch compiled"), key=lambda name: found[name][0])
            ratios.append(found["weft"][0] / found[better][0])
            memory.append(found["weft"][1] / found[better][1])
    print(f"of the better of the two: {statistics.geometric_mean(ratios):.2f} of the time, {statistics.geometric_mean(memory):.2f} of the memory")


if __name__ == "__main__":
    main()
