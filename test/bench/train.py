"""./dev bench train: steps of training networks (train_networks.py) beside PyTorch, eager and compiled.

    train.py [--networks gpt2,convnext,... --rounds 3 --steps 14 --threads 1,2 --arch LEVEL]

PyTorch exports each network; weft compiles what it wrote. The three run in turns, each round a process of each; the losses of
all steps have to agree. A time is the median of the rounds' medians, `least` the least of all steps after the first four.
Memory is the peak of the whole process, and what comes before the first step is what weft compile takes, or the first step of
the other two.
"""

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "test"))
from exported_anew import interpreter  # noqa: E402

TORCH = ROOT / "test/bench/train_torch.py"
NETWORKS = "gpt2,gpt2_few_words,convnext,vit,resnet,experts,experts_routed,dlrm"
SIDES = ("weft", "torch eager", "torch compiled")
LOSS_TOLERANCE = 1e-3  # relative; what is chosen, such as an expert, may turn by rounding
FIRST = 4  # steps that do not count


def run(command):
    """Runs the command. Returns its standard output, and the MiB that it had at most."""
    process = subprocess.Popen([str(part) for part in command], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    out, err = process.stdout.read(), process.stderr.read()
    _, status, used = os.wait4(process.pid, 0)
    if status != 0:
        sys.exit(f"{' '.join(map(str, command))}: {err[-1500:]}")
    return out, used.ru_maxrss / 1024


class Contest:
    def __init__(self, network, options, python):
        self.network, self.options, self.python = network, options, python
        self.folder = ROOT / "build/bench/train" / network
        self.folder.mkdir(parents=True, exist_ok=True)
        run([python, TORCH, "export", network, self.folder, options.steps])
        begin = time.monotonic()
        run([ROOT / "build/dev/weft", "compile", self.folder / "model.onnx", "--schedule", self.folder / "train.yaml",
             "-o", self.folder / "program", "--quiet", *(["--arch", options.arch] if options.arch else [])])
        self.compile_seconds = time.monotonic() - begin

    def weft(self, threads):
        log = self.folder / "log.jsonl"
        log.unlink(missing_ok=True)
        data = [word for file in sorted(self.folder.glob("*.npy")) for word in ("--data", f"{file.stem}={file}")]
        _, memory = run([self.folder / "program", *data, "--steps", self.options.steps, "--threads", threads, "--log", log])
        steps = [line for line in map(json.loads, log.read_text().splitlines()) if "ms" in line]
        return [step["loss"] for step in steps], [step["ms"] for step in steps], memory, self.compile_seconds

    def torch(self, threads, mode):
        out, memory = run([self.python, TORCH, "train", self.network, self.folder, self.options.steps, threads, mode])
        found = json.loads(out.strip().splitlines()[-1])
        return found["losses"], [second * 1e3 for second in found["seconds"]], memory, found["seconds"][0]

    def side(self, name, threads):
        return self.weft(threads) if name == "weft" else self.torch(threads, name.removeprefix("torch "))

    def rounds(self, threads):
        """By side: ms a step, least ms, MiB, seconds before the first step."""
        found = {name: [] for name in SIDES}
        for _ in range(self.options.rounds):
            losses = {}
            for name in SIDES:
                losses[name], times, memory, first = self.side(name, threads)
                found[name].append((statistics.median(times[FIRST:]), min(times[FIRST:]), memory, first))
            self.compare(losses)
        return {name: [statistics.median(ms), min(least), max(mib), statistics.median(first)]
                for name, rows in found.items() for ms, least, mib, first in [zip(*rows)]}

    def compare(self, losses):
        wanted = losses["torch eager"]
        for name, values in losses.items():
            worst = max(abs(value / each - 1) for value, each in zip(values, wanted, strict=True))
            if worst > LOSS_TOLERANCE:
                sys.exit(f"{self.network}: the losses of {name} are {worst:.1e} from those of PyTorch")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=14)
    parser.add_argument("--threads", default="1,2")
    parser.add_argument("--networks", default=NETWORKS)
    parser.add_argument("--arch", help="of weft compile")
    options = parser.parse_args()
    python, reason = interpreter(ROOT / "test/training/requirements.txt", "training_make")
    if not python:
        sys.exit(f"PyTorch is not there: {reason}")
    print(f"{'network':<16}{'threads':>7}  {'':<16}{'ms a step':>10}{'least':>9}{'weft / it':>11}{'least':>7}{'MiB':>7}{'first s':>9}")
    ratios, memory = [], []
    for network in options.networks.split(","):
        contest = Contest(network, options, python)
        for threads in map(int, options.threads.split(",")):
            found = contest.rounds(threads)
            ours = found["weft"]
            for name, (ms, least, mib, first) in found.items():
                print(f"{network:<16}{threads:>7}  {name:<16}{ms:>10.2f}{least:>9.2f}{ours[0] / ms:>11.2f}{ours[1] / least:>7.2f}{mib:>7.0f}"
                      f"{first:>9.1f}", flush=True)
            better = min(SIDES[1:], key=lambda name: found[name][0])
            ratios.append(ours[0] / found[better][0])
            memory.append(ours[2] / found[better][2])
    print(f"of the better of the two: {statistics.geometric_mean(ratios):.2f} of the time, worst {max(ratios):.2f}, "
          f"{statistics.geometric_mean(memory):.2f} of the memory")


if __name__ == "__main__":
    main()
