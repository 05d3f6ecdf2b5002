"""./dev bench tune: what `weft tune` finds, beside the best schedules of the samples.

    tune.py [--case NAME]... [--pairs 30 --iterations 8]

Tunes the MLP over a link as slow as its product, and Adam through shared memory, each from a schedule that has only
layouts. The result is compiled twice from its file (the executables must have equal bytes), and run in turns with the
shipped schedule. `ratio` is the median over pairs of tuned / shipped with its 95 % interval, as in overlap.py. A tuned
one that is significantly slower is exit 1.
"""

import argparse
import sys

import overlap
from load import median_interval


def cases():
    """For each case: the model, the schedule to start from, the shipped one, and whether it uses the link."""
    by_name = {case.name: case for case in overlap.cases()}
    mlp, adam = by_name["mlp"], by_name["adam 1M"]
    return [(mlp, mlp.schedules[0], overlap.SAMPLES / "mlp" / "tp2_overlap.yaml", True),
            (adam, overlap.SAMPLES / "adam" / "sliced.yaml", overlap.SAMPLES / "adam" / "fused.yaml", False)]


def tune(case, start, arguments):
    """The schedule that was found; the table of what was tried is printed."""
    found = overlap.FOLDER / f"{case.name.replace(' ', '_')}_tuned.yaml"
    table = overlap.run(overlap.WEFT, "tune", overlap.model_of(case), *overlap.model_flags(case), "--schedule", start,
                        "--quiet", "-o", found, *(["--run-args", " ".join(arguments)] if arguments else []))
    print(table, end="", flush=True)
    return found


def compare(case, start, shipped, over_link, options):
    """Whether what is found is not slower than what is shipped."""
    (_, plain), (_, best) = overlap.build(case, [start, shipped])
    arguments = ["--link", overlap.link_for(plain, options)] if over_link else []
    print(f"{case.name} from {start.stem}{', ' + ' '.join(arguments) if arguments else ''}")
    found = tune(case, start, arguments)
    replays = [overlap.build(case, [found], suffix)[0][1] for suffix in ("", "_again")]
    equal = replays[0].read_bytes() == replays[1].read_bytes()
    rows = [("shipped", best), ("tuned", replays[0])]
    rounds = [overlap.time_round(rows, options, arguments, number % 2 == 1) for number in range(options.pairs)]
    middle, low, high = median_interval([tuned / other for other, tuned in rounds])
    verdict = "slower" if low > 1 else "faster" if high < 1 else "no difference seen"
    print(f"{case.name}: tuned / {shipped.stem} = {middle:.3f} ({low:.3f} .. {high:.3f}), {options.pairs} pairs: {verdict}; "
          f"compiled again: {'equal bytes' if equal else 'OTHER BYTES'}\n", flush=True)
    return equal and low <= 1


def main(arguments):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--case", action="append", default=[])
    parser.add_argument("--pairs", type=int, default=30)
    parser.add_argument("--iterations", type=int, default=8)
    options = parser.parse_args(arguments)
    overlap.FOLDER.mkdir(parents=True, exist_ok=True)
    well = [compare(case, start, shipped, over_link, options) for case, start, shipped, over_link in cases()
            if not options.case or case.name.split()[0] in options.case]
    return 0 if all(well) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
