"""./dev bench pipelines: the placements of samples/pipelines as trainings, in the searched order beside 1F1B.

    pipelines.py [--only v,k] [--ranks N] [--rounds 12] [--link 1GB/s,50us]

Blocks are profiled once (weft profile, over the link). Their times give the predicted bubbles and the searched order.
Stages that run on all ranks are steps of 1F1B too, which the literature calls 1F1B+. There are as many ranks as cores,
2 or 4, because ranks that share a core have no bubbles of their own. A round trains with each program for a few steps,
every second round backwards. `ms` is the median of a step over all rounds. `faster` is the median over rounds of 1F1B /
searched with its 95 % interval. `bubble`: predicted, and as the trace of a run measured it.

Exit 1 where a measured bubble is more than 10 percentage points from the predicted one, or the searched order is slower than
1F1B beyond doubt.
"""

import argparse
import functools
import json
import os
import pathlib
import re
import statistics
import sys

from command import run_in
from load import BUSY, Load, median_interval

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path[:0] = [str(ROOT / "test"), str(ROOT / "test" / "end_to_end")]
from placements_check import PLACEMENTS, SAMPLES, in_order, on_ranks, write_data  # noqa: E402

WEFT = pathlib.Path(os.environ.get("WEFT_BUILD", ROOT / "build" / "dev")) / "weft"
FOLDER = ROOT / "build" / "bench" / "pipelines"
SIZES = ["--width", "384", "--heads", "6"]
ORDERS = ("1f1b", "search")
STEPS, POINTS = 6, 0.10
run = functools.partial(run_in, FOLDER)


class Case:
    """A placement, compiled in both orders."""

    def __init__(self, name, ranks, link):
        self.name, self.link, self.data = name, link, PLACEMENTS[name].data
        self.model = FOLDER / f"{PLACEMENTS[name].kind}.onnx"
        run(sys.executable, SAMPLES / "make.py", PLACEMENTS[name].kind, self.model, *SIZES)
        for order in ORDERS:
            self.schedule(order).write_text(in_order(on_ranks(name, ranks), order))
        self.profile = FOLDER / f"{name}_profile.json"
        run(WEFT, "profile", self.model, "--schedule", self.schedule("1f1b"), "--run-args", f"--link {link}", "-o", self.profile)
        for order in ORDERS:
            more = ["--profile", self.profile] if order == "search" else []
            run(WEFT, "compile", self.model, "--schedule", self.schedule(order), *more, "-o", self.program(order), "--quiet")

    def schedule(self, order):
        return FOLDER / f"{self.name}_{order}.yaml"

    def program(self, order):
        return FOLDER / f"{self.name}_{order}"

    def train(self, order, *flags):
        given = [word for value in self.data for word in ("--data", f"{value}={FOLDER / value}.npy")]
        return run(self.program(order), *given, "--link", self.link, "--threads", "1", *flags)

    def milliseconds(self, order):
        """The milliseconds of each step except the first, in which caches are cold."""
        log = FOLDER / "log.jsonl"
        self.train(order, "--steps", STEPS, "--log", log)
        return [json.loads(line)["ms"] for line in log.read_text().splitlines()][1:]

    def predicted(self, order):
        out = run(WEFT, "explain", self.model, "--schedule", self.schedule(order), "--profile", self.profile, "--json")
        return json.loads(out)["pipeline"]

    def measured_bubble(self, order):
        trace = FOLDER / "trace.json"
        bubbles = []
        for _ in range(3):
            self.train(order, "--steps", STEPS, "--trace", trace)
            bubbles.append(json.loads(run(WEFT, "trace", trace, "--json"))["pipeline"]["bubble"])
        return statistics.median(bubbles)


def measure(case, rounds):
    """Milliseconds by order, and the rounds' ratios."""
    times, ratios = {order: [] for order in ORDERS}, []
    for number in range(rounds):
        one = {order: case.milliseconds(order) for order in (ORDERS if number % 2 == 0 else ORDERS[::-1])}
        for order in ORDERS:
            times[order] += one[order]
        ratios.append(statistics.median(one["1f1b"]) / statistics.median(one["search"]))
    return {order: statistics.median(times[order]) for order in ORDERS}, ratios


def report(case, rounds):
    """Prints the case's rows; what is wrong with them."""
    times, ratios = measure(case, rounds)
    middle, low, high = median_interval(ratios)
    wrong = [f"{case.name}: slower than 1F1B"] if high < 1 else []
    for order in ORDERS:
        predicted, bubble = case.predicted(order), case.measured_bubble(order)
        faster = f"{middle:>8.2f}   {low:.2f} .. {high:.2f}" if order == "search" else ""
        print(f"{case.name:<6}{order:<8}{predicted['seconds'] * 1e3:>11.1f}{times[order]:>9.1f}{predicted['bubble']:>11.0%}{bubble:>10.0%}{faster}", flush=True)
        if abs(bubble - predicted["bubble"]) > POINTS:
            wrong.append(f"{case.name}, {order}: a bubble of {bubble:.0%} instead of {predicted['bubble']:.0%}")
    return wrong


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", help="some of the placements, with commas between them")
    parser.add_argument("--ranks", type=int, choices=(2, 4), default=4 if len(os.sched_getaffinity(0)) >= 4 else 2)
    parser.add_argument("--rounds", type=int, default=12)
    parser.add_argument("--link", default="1GB/s,50us")
    options = parser.parse_args()
    FOLDER.mkdir(parents=True, exist_ok=True)
    names = options.only.split(",") if options.only else [name for name, each in PLACEMENTS.items() if options.ranks in each.ranks]
    load = Load()
    print(f"{options.ranks} ranks over a link of {options.link}, one thread each; {options.rounds} rounds of {STEPS} steps\n")
    print(f"{'':<6}{'order':<8}{'predicted':>11}{'ms':>9}{'bubble':>11}{'measured':>10}{'faster':>8}   95 %")
    wrong = []
    for name in names:
        write_data(FOLDER, PLACEMENTS[name].data)
        wrong += report(Case(name, options.ranks, options.link), options.rounds)
    print(f"\n{load}" + (": a disturbed measurement" if load.of_others() > BUSY else ""))
    print("\n".join(wrong) if wrong else "no bubble differs by more than 10 points, no searched order is slower")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
