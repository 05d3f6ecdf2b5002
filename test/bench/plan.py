"""./dev bench plan: schedules that `weft plan` writes, beside those that were written by hand and beside others.

    plan.py [--only mlp,gpt2,llama,moe] [--ranks 2,4] [--rounds 12] [--link 100MB/s,50us] [--others 8]

The machine is measured first, over the link (weft profile --machine), with the same number of ranks; ranks that share a
core are half as fast each. For each model and number of ranks, several schedules run as programs over the link. They
are the planned schedule; the handwritten one of samples/; the same on all ranks, without layouts; and mixtures of
entries of both, drawn with a fixed seed. `ms` is the median over all rounds. Each round runs every program once, every
second one backwards.

`tau` is Kendall's of the predicted and the measured order: of all pairs that differ in both, the share that are ordered
alike less the share that are not. Predicted times that differ by less than 1 % are alike, and so are measured ones whose
ratio's 95 % interval holds 1. `faster` is by hand / planned with its interval.

Exit 1 where a tau is below 0.8, or where the planned schedule is slower than that by hand beyond doubt.
"""

import argparse
import dataclasses
import functools
import itertools
import json
import os
import pathlib
import random
import re
import statistics
import subprocess
import sys

from command import run_in
from load import BUSY, Load, median_interval

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
WEFT = pathlib.Path(os.environ.get("WEFT_BUILD", ROOT / "build" / "dev")) / "weft"
FOLDER = ROOT / "build" / "bench" / "plan"
SAMPLES = ROOT / "samples"
ALIKE, TAU = 0.01, 0.8
run = functools.partial(run_in, FOLDER)


@dataclasses.dataclass
class Model:
    maker: str  # below samples/
    by_hand: dict  # schedules by the number of ranks
    flags: list  # of the maker
    dims: dict
    kind: str = ".onnx"


MODELS = {
    "mlp": Model("mlp_block", {2: "mm_ar_c.yaml", 4: "mm_ar_c.yaml"}, ["--hidden", "512", "--inner", "2048"], {"batch": 4, "seq": 64}, ".onnxtxt"),
    "gpt2": Model("gpt2", {2: "tp2.yaml", 4: "tp4.yaml"},
                  "--layers 4 --width 256 --heads 8 --vocab 2048 --context 128".split(), {"batch": 4, "seq": 64}),
    "llama": Model("llama", {2: "tp2.yaml", 4: "tp4.yaml"},
                   "--layers 4 --width 256 --heads 8 --groups 4 --hidden 768 --vocab 2048".split(), {"batch": 4, "seq": 64}),
    "moe": Model("moe", {2: "experts.yaml", 4: "experts.yaml"}, "--width 256 --inner 1024 --experts 8 --capacity 32".split(), {"groups": 4, "tokens": 128}, ".onnxtxt"),
}


def mesh_and_entries(text):
    """The line of the mesh, and the lines of `shard` without comments."""
    mesh = re.search(r"^mesh: .*$", text, re.M)[0]
    section = re.search(r"^shard:\n((?:  .*\n)+)", text, re.M)
    return mesh, [line.split("  #")[0].rstrip() for line in section[1].splitlines()] if section else []


class Case:
    """A model on so many ranks, with all of its schedules."""

    def __init__(self, name, ranks, options):
        self.model, self.ranks, self.link, self.made = MODELS[name], ranks, options.link, {}
        self.stem = f"{name}{ranks}"
        self.file = FOLDER / f"{name}{self.model.kind}"
        run(sys.executable, SAMPLES / self.model.maker / "make.py", self.file, *self.model.flags)
        self.dims = [word for dim, size in self.model.dims.items() for word in ("--dim", f"{dim}={size}")]
        self.machine = machine_with(ranks, options.link)
        planned = FOLDER / f"{self.stem}_planned.yaml"
        run(WEFT, "plan", self.file, *self.dims, "--machine", self.machine, "-o", planned, "--quiet")
        self.add("planned", planned.read_text())
        if ranks in self.model.by_hand:
            text = (SAMPLES / self.model.maker / self.model.by_hand[ranks]).read_text()
            self.add("by hand", re.sub(r"(mesh: \{\w+:) \d+", rf"\1 {ranks}", text))
        self.add("all alike", f"weft: 1\nmesh: {{tp: {ranks}}}\n")
        self.add_others(options.others)

    def add_others(self, count):
        """Some of the entries of the planned schedule, and of that by hand: each that can be compiled is a schedule."""
        draw = random.Random(self.stem)
        texts = [mesh_and_entries(text) for name, (text, _, _) in list(self.made.items()) if name != "all alike"]
        known = {entries_text for _, entries in texts for entries_text in ["\n".join(entries)]}
        for _ in range(20 * count):
            if len(self.made) >= count + 3:
                break
            mesh, entries = draw.choice(texts)
            some = [entry for entry in entries if draw.random() < 0.6]
            if not some or "\n".join(some) in known:
                continue
            known.add("\n".join(some))
            self.add(f"other {len(self.made) - 2}", "\n".join(["weft: 1", mesh, "shard:", *some, ""]), may_fail=True)

    def add(self, name, text, may_fail=False):
        """Compiles it; what cannot be is no schedule, which only others may be."""
        schedule, program = (FOLDER / f"{self.stem}_{name.replace(' ', '_')}{end}" for end in (".yaml", ""))
        schedule.write_text(text)
        command = [WEFT, "compile", self.file, *self.dims, "--schedule", schedule, "-o", program, "--quiet"]
        done = subprocess.run(command, capture_output=True, text=True, cwd=FOLDER)
        if done.returncode != 0 and may_fail:
            return
        if done.returncode != 0:
            sys.exit(f"{schedule}: exit {done.returncode}\n{done.stderr}")
        explained = run(WEFT, "explain", self.file, *self.dims, "--schedule", schedule, "--machine", self.machine, "--json")
        self.made[name] = (text, program, json.loads(explained)["timeline"]["seconds"] * 1e3)

    def milliseconds(self, name):
        out = run(self.made[name][1], "--random-inputs", "1", "--warmup", "2", "--iterations", "6", "--threads", "1",
                  "--link", self.link, "--json")
        return json.loads(out)["latency_ms"]["median"]


@functools.cache
def machine_with(ranks, link):
    """The file of this machine with so many ranks, and the link as its network."""
    file = FOLDER / f"machine{ranks}.yaml"
    run(WEFT, "profile", "--machine", "--ranks", ranks, "--run-args", f"--link {link}", "-o", file)
    return file


def kendall(predicted, rounds):
    """Among pairs that differ in both: the fraction ordered alike minus the fraction ordered differently."""
    alike = unlike = 0
    for a, b in itertools.combinations(predicted, 2):
        ratio = predicted[a] / predicted[b]
        _, low, high = median_interval([one[a] / one[b] for one in rounds])
        if abs(ratio - 1) < ALIKE or low <= 1 <= high:
            continue
        if (ratio > 1) == (low > 1):
            alike += 1
        else:
            unlike += 1
    return (alike - unlike) / max(1, alike + unlike), alike + unlike


def report(name, case, rounds_wanted):
    """Prints the case's rows; what is wrong with them."""
    load, rounds, names = Load(), [], list(case.made)
    for number in range(rounds_wanted):
        rounds.append({each: case.milliseconds(each) for each in (names if number % 2 == 0 else names[::-1])})
    predicted = {each: case.made[each][2] for each in names}
    print(f"{name}, {case.ranks} ranks; {load}" + (": a disturbed measurement" if load.of_others() > BUSY else ""))
    for each in sorted(names, key=predicted.get):
        print(f"  {each:<12}{predicted[each]:>11.2f}{statistics.median(one[each] for one in rounds):>9.2f}")
    tau, pairs = kendall(predicted, rounds)
    print(f"  tau {tau:.2f} of {pairs} pairs", flush=True)
    wrong = [f"{case.stem}: tau {tau:.2f}"] if tau < TAU else []
    if "by hand" in names:
        middle, low, high = median_interval([one["by hand"] / one["planned"] for one in rounds])
        print(f"  faster than by hand: {middle:.2f}   {low:.2f} .. {high:.2f}", flush=True)
        wrong += [f"{case.stem}: slower than by hand"] if high < 1 else []
    return wrong


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default=",".join(MODELS), help="some of the models, with commas between them")
    parser.add_argument("--ranks", default="2,4")
    parser.add_argument("--rounds", type=int, default=12)
    parser.add_argument("--link", default="100MB/s,50us")
    parser.add_argument("--others", type=int, default=8)
    options = parser.parse_args()
    FOLDER.mkdir(parents=True, exist_ok=True)
    print(f"over a link of {options.link}, one thread a rank; {options.rounds} rounds\n\n  {'schedule':<12}{'predicted':>11}{'ms':>9}")
    wrong = []
    for name, ranks in itertools.product(options.only.split(","), map(int, options.ranks.split(","))):
        wrong += report(name, Case(name, ranks, options), options.rounds)
    print("\n".join(wrong) if wrong else "no tau is below 0.8, no planned schedule is slower than that by hand")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
