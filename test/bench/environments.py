"""./dev bench environments: steps a second of samples/environments, one kernel beside step by step and a plain C++ loop.

    environments.py [--steps 200] [--copies 1024]

One thread each. Step by step is an executable of one step, whose state stays in place between iterations, as a user
would call it. Its rate is the rate of the executable's own loop (--iterations), including the time between two
iterations; `step alone` times only its kernel. Times are the shortest of some rounds, which other programs disturb
least.
"""

import argparse
import json
import pathlib
import subprocess
import sys
import time

from load import Load

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "samples" / "environments"))
import make  # noqa: E402

FOLDER = ROOT / "build" / "bench"
WEFT = ROOT / "build" / "dev" / "weft"
FLAGS = ["-std=c++20", "-O3", "-march=native", "-fno-math-errno", "-fno-trapping-math"]


def compiled(environment, form, steps, copies):
    names = list(make.ENVIRONMENTS[environment][1])
    model, schedule = FOLDER / f"{environment}_{form}.onnx", FOLDER / f"{environment}_{form}.yaml"
    make.save(make.make(environment, form, steps, copies), model)
    pairs = ", ".join(f"{name}: {name}_next" for name in names) if form == "step" else ""
    schedule.write_text("weft: 1\n" + (f"state: {{{pairs}}}\n" if pairs else ""))
    program = model.with_suffix("")
    subprocess.run([WEFT, "compile", model, "--schedule", schedule, "-o", program], check=True, capture_output=True)
    return program


def report(program, iterations):
    run = subprocess.run([program, "--random-inputs", "1", "--threads", "1", "--iterations", str(iterations), "--warmup",
                          "5", "--json"], check=True, capture_output=True, text=True)
    return json.loads(run.stdout)


def nanoseconds(program, iterations, rounds=5):
    """The shortest iteration."""
    return min(report(program, iterations)["latency_ms"]["min"] for _ in range(rounds)) * 1e6


def nanoseconds_of_loop(program, rounds=9):
    """From one iteration to the next: what some more iterations take, without start and end."""
    def seconds(iterations):
        start = time.perf_counter()
        report(program, iterations)
        return time.perf_counter() - start

    few, many = 1000, 41000
    return min(seconds(many) for _ in range(rounds)) / (many - few) * 1e9 - min(
        seconds(few) for _ in range(rounds)) / (many - few) * 1e9


def plain(environment, steps, copies):
    program = FOLDER / "environments"
    if not program.exists() or program.stat().st_mtime < (ROOT / "test/bench/environments.cpp").stat().st_mtime:
        subprocess.run(["g++", *FLAGS, ROOT / "test" / "bench" / "environments.cpp", "-o", program], check=True)
    return float(subprocess.run([program, environment, str(steps), str(copies)], check=True, capture_output=True).stdout)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--copies", type=int, default=1024)
    options = parser.parse_args()
    FOLDER.mkdir(parents=True, exist_ok=True)
    load = Load()
    print(f"{'million steps a second':24} {'one kernel':>11} {'step by step':>13} {'step alone':>11} {'plain C++':>10}   one kernel")
    for environment in make.ENVIRONMENTS:
        whole = nanoseconds(compiled(environment, "loop", options.steps, options.copies), 50)
        one = whole / options.steps / options.copies
        program = compiled(environment, "step", 1, options.copies)
        step, alone = nanoseconds_of_loop(program) / options.copies, nanoseconds(program, 2000) / options.copies
        by_hand = plain(environment, options.steps, options.copies)
        print(f"{environment:24} {1e3 / one:11.1f} {1e3 / step:13.1f} {1e3 / alone:11.1f} {1e3 / by_hand:10.1f}   "
              f"{step / one:.1f}x steps, {alone / one:.1f}x step alone, {by_hand / one:.1f}x plain", flush=True)
    print(load)


if __name__ == "__main__":
    main()
