"""./dev bench overlap: what splitting, fusing and overlapping gain on the host, sample by sample.

    overlap.py [--case NAME]... [--rounds 30 --iterations 8] [--link 100MB/s,20us | --link none]

Each schedule of a sample beside the first, plain one, first through shared memory alone, then over a link (--link of the
programs). Without --link its bandwidth is such that what the plain schedule receives takes as long as the plain program
takes without a link.

A round runs every schedule once, every second round backwards. `time` is the median over rounds of each round's median;
`speed-up` the median over rounds of plain / this in one round, with the 95 % interval of that median (order statistics,
nothing assumed of the distribution). `KB` is what a rank receives. `hidden` is what --overlap reports over the link, the
median of three runs; a schedule whose communication has no stream of its own hides none.

Each case names its best schedules, in memory and over a link. At the end stands how they did at each size, and which were
slower than plain beyond doubt (the interval below 1): that is exit 1.
"""

import argparse
import dataclasses
import functools
import json
import os
import pathlib
import statistics
import subprocess
import sys
import time

from command import run_in
from load import BUSY, Load, median_interval

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
WEFT = pathlib.Path(os.environ.get("WEFT_BUILD", ROOT / "build" / "dev")) / "weft"
FOLDER = ROOT / "build" / "bench" / "overlap"
run = functools.partial(run_in, FOLDER)
SAMPLES, MODELS = ROOT / "samples", ROOT / "test" / "models"
WARM_UP = 2
PAUSE_SECONDS = 0.02  # threads of the one before have gone to sleep


@dataclasses.dataclass
class Case:
    name: str
    model: pathlib.Path  # a text model, or a script that writes one
    schedules: list  # the plain one first
    best: tuple  # through shared memory, where to communicate is to compute, and over a link
    flags: list = dataclasses.field(default_factory=list)  # of the script
    dims: dict = dataclasses.field(default_factory=dict)
    mesh: list = dataclasses.field(default_factory=list)


def schedules(sample, *names):
    return [SAMPLES / sample / f"{name}.yaml" for name in names]


def optimizer(sample, title, n):
    names = ("ar_c", "rs_c_ag", "sliced", "fused", "overlapped")
    return Case(f"{sample} {title}", SAMPLES / sample / f"{sample}.onnxtxt", schedules(sample, *names),
                best=("fused", "fused"), dims={"replicas": 2, "n": n}, mesh=["dp=2"])


def tails(sample, *sizes):
    """The end of a transformer's half layer at sizes of (seq, hidden, further sizes of the script by name)."""
    names = ("mm_ar_c", "mm_rs_c_ag", "fused", "overlapped")
    return [Case(f"{sample} {seq}x{hidden}", SAMPLES / sample / "make.py", schedules(sample, *names), names[-2:],
                 flags=["--hidden", str(hidden), *more], dims={"batch": 2, "seq": seq}, mesh=["tp=2"])
            for seq, hidden, *more in sizes]


def mlp_prefix(name, verbs):
    """samples/mlp/tp2_overlap.yaml with these transforms of it alone."""
    lines = (SAMPLES / "mlp" / "tp2_overlap.yaml").read_text().splitlines(keepends=True)
    kept = [line for line in lines if not line.startswith("  - ") or line[4:].split(":")[0] in verbs]
    path = FOLDER / "mlp_schedules" / f"{name}.yaml"
    path.parent.mkdir(exist_ok=True)
    path.write_text("".join(kept))
    return path


def cases():
    mlp = [SAMPLES / "mlp" / "tp2.yaml", mlp_prefix("split", ["split", "reorder"]),
           mlp_prefix("fused", ["split", "reorder", "fuse"]), SAMPLES / "mlp" / "tp2_overlap.yaml",
           MODELS / "mlp_tp2_overlap.yaml"]
    return [
        Case("mlp", MODELS / "mlp.py", mlp, ("fused", "mlp_tp2_overlap"), flags=["--rows", "512", "--width", "512", "--hidden", "2048"]),
        optimizer("adam", "64K", 1 << 16), optimizer("adam", "1M", 1 << 20), optimizer("adam", "4M", 1 << 22),
        optimizer("lamb", "64K", 1 << 16), optimizer("lamb", "1M", 1 << 20), optimizer("lamb", "4M", 1 << 22),
        *tails("attention_tail", (64, 512), (128, 768), (256, 768), (256, 1024), (512, 1024)),
        *tails("mlp_block", (64, 256, "--inner", "1024"), (128, 256, "--inner", "1024"), (128, 512, "--inner", "2048"),
               (256, 512, "--inner", "2048"), (256, 768, "--inner", "3072")),
        Case("moe", SAMPLES / "moe" / "make.py", schedules("moe", "replicated", "experts", "exchanged", "overlapped"),
             ("exchanged", "overlapped"),
             flags=["--width", "128", "--inner", "512", "--capacity", "40"], dims={"groups": 4, "tokens": 128}, mesh=["ep=2"]),
        # A step of data parallel training: sums of gradients under the rest of the way back.
        Case("training", SAMPLES / "gpt2" / "make.py", schedules("training", "gpt2_dp2", "gpt2_dp2_fused", "gpt2_dp2_overlap"),
             ("gpt2_dp2_fused", "gpt2_dp2_overlap"),
             flags=["--layers", "4", "--width", "128", "--heads", "4", "--vocab", "256", "--context", "64"]),
        # Four ranks, whatever the cores: two in each of two stages.
        Case("pipeline_boundary", SAMPLES / "pipeline_boundary" / "make.py",
             schedules("pipeline_boundary", "ar_p2p", "rs_p2p_ag", "overlapped", "overlapped_fused"),
             ("overlapped_fused", "overlapped_fused"),
             flags=["--hidden", "512", "--inner", "1024"], dims={"batch": 4, "seq": 128}),
    ]


def model_of(case):
    """The model's file, written if a script has to."""
    if case.model.suffix != ".py":
        return case.model
    binary = case.model.parent in (MODELS, SAMPLES / "gpt2")
    model = FOLDER / f"{case.name.replace(' ', '_')}{'.onnx' if binary else '.onnxtxt'}"
    run(sys.executable, case.model, model, *case.flags)
    return model


def model_flags(case):
    dims = [word for name, size in case.dims.items() for word in ("--dim", f"{name}={size}")]
    return dims + [word for axis in case.mesh for word in ("--mesh", axis)]


def build(case, schedules=(), suffix=""):
    """Rows of (name of the schedule, program), of all schedules or of these."""
    model, stem, rows = model_of(case), case.name.replace(" ", "_"), []
    for schedule in schedules or case.schedules:
        program = FOLDER / f"{stem}_{schedule.stem}{suffix}"
        run(WEFT, "compile", model, *model_flags(case), "--schedule", schedule, "-o", program)
        rows.append((schedule.stem, program))
    return rows


def report_of(program, options, *flags):
    time.sleep(PAUSE_SECONDS)
    return json.loads(run(program, "--random-inputs", "1", "--warmup", WARM_UP, "--iterations", options.iterations,
                          "--json", *flags))


def time_round(rows, options, link, backwards):
    times = [0.0] * len(rows)
    for index in reversed(range(len(rows))) if backwards else range(len(rows)):
        times[index] = report_of(rows[index][1], options, *link)["latency_ms"]["median"]
    return times


def has_streams(program):
    """Whether its communication runs beside its computation: --overlap says exit 2 where it does not."""
    command = [str(program), "--random-inputs", "1", "--overlap"]
    code = subprocess.run(command, capture_output=True, cwd=FOLDER).returncode
    if code not in (0, 2):
        sys.exit(f"{' '.join(command)}: exit {code}")
    return code == 0


def hidden(program, options, link):
    if not link or not has_streams(program):
        return "-"
    shares = [report_of(program, options, "--overlap", *link)["overlap"]["hidden"] for _ in range(3)]
    measurable = [share for share in shares if share is not None]
    return f"{statistics.median(measurable):.0%}" if measurable else "-"


def print_table(rows, rounds, options, link):
    """Returns the intervals of the speed-ups by schedule."""
    intervals = {}
    print(f"  {'schedule':<22}{'ms':>9}{'KB':>9}{'hidden':>8}{'speed-up':>10}   95 %")
    for index, (name, program) in enumerate(rows):
        received = report_of(program, options).get("received_bytes", 0) / 1e3
        line = f"  {name:<22}{statistics.median(each[index] for each in rounds):>9.3f}{received:>9.0f}"
        line += f"{hidden(program, options, link):>8}"
        if index > 0:
            middle, low, high = intervals[name] = median_interval([each[0] / each[index] for each in rounds])
            line += f"{middle:>10.2f}   {low:.2f} .. {high:.2f}"
        print(line, flush=True)
    return intervals


def measure(title, rows, options, link):
    load = Load()
    rounds = [time_round(rows, options, link, number % 2 == 1) for number in range(options.rounds)]
    print(f"{title}; {options.rounds} rounds; {load}" + (": a disturbed measurement" if load.of_others() > BUSY else ""))
    return print_table(rows, rounds, options, link)


def link_for(program, options):
    """Over which what it receives takes as long as it takes without a link."""
    report = report_of(program, options)
    return f"{report['received_bytes'] / report['latency_ms']['median'] / 1e3:.1f}MB/s"


def judge(results):
    """Prints how the best schedules did; the number of those that are slower than the plain one."""
    for medium in sorted({medium for _, medium in results}, reverse=True):
        print(f"best schedules, {medium}")
        for sample in dict.fromkeys(title.split()[0] for title, _ in results):
            gains = [gain for (title, by), gain in results.items() if title.split()[0] == sample and by == medium]
            line = f"  {sample:<22}faster at {sum(low > 1 for _, low, _ in gains)} of {len(gains)} sizes:"
            print(line + "".join(f" {middle:.2f}" for middle, _, _ in gains))
    slower = [f"{title}, {medium}" for (title, medium), (_, _, high) in results.items() if high < 1]
    print(f"slower than plain: {'; '.join(slower) or 'none'}")
    return len(slower)


def main(arguments):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--case", action="append", default=[], help="adam, or \"adam 1M\"; may be repeated")
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--iterations", type=int, default=8)
    parser.add_argument("--link", default="")
    options = parser.parse_args(arguments)
    FOLDER.mkdir(parents=True, exist_ok=True)
    results = {}
    for case in cases():
        if options.case and not {case.name, case.name.split()[0]} & set(options.case):
            continue
        rows = build(case)
        measured = measure(f"{case.name}, shared memory", rows, options, [])
        results[case.name, "shared memory"] = measured[case.best[0]]
        if options.link != "none":
            speed = options.link or link_for(rows[0][1], options)
            results[case.name, "link"] = measure(f"{case.name}, {speed}", rows, options, ["--link", speed])[case.best[1]]
    return 1 if judge(results) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
