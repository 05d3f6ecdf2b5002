# test: fast
"""Repeats earlier findings of fuzzing, and a few hundred models mutated with fixed seeds: no signal, no internal error,
no hang. In `full` the same under the address and undefined-behaviour sanitizers, more seeds, and random graphs compared
with ONNX Runtime.

`./dev fuzz` looks for more."""

import os
import pathlib

import harness
from seeds import case_bytes, write_seeds

CORPUS = pathlib.Path(__file__).parent / "corpus"
SEEDS = 3000 if harness.FULL else 300
GRAPH_SECONDS = 120


def kept_cases(folder):
    """The corpus as files of cases, by target."""
    for path in sorted(CORPUS.glob("*/*")):
        case = folder / path.parent.name / path.stem
        case.parent.mkdir(parents=True, exist_ok=True)
        case.write_bytes(case_bytes(path))
        yield path.parent.name, case


def check_corpus(replay, prefix, cases):
    by_target = {}
    for target, case in cases:
        by_target.setdefault(target, []).append(case)
    for target, files in by_target.items():
        _, out, err = harness.run([replay, "run", target, *files])
        endings = dict(line.rsplit(": ", 1) for line in out.splitlines())
        for file in files:
            ending = endings.get(str(file))
            harness.check(f"{prefix}/{target}/{file.name}", ending is None, f"{ending}: {err[-300:]}")


def check_seeds(replay, prefix, folder, count):
    seeds = sorted((folder / "model").iterdir())
    status, out, err = harness.run([replay, "mutate", "model", 1, count, folder, *seeds], timeout=1800)
    harness.check(f"{prefix}/seeds", status == 0, f"exit {status}: {out[-200:]} {err[-300:]}")


def main():
    folder = harness.scratch("fuzz")
    replay = harness.BUILD / "fuzz_replay"
    cases = list(kept_cases(folder / "kept"))
    write_seeds(folder / "seeds")
    check_corpus(replay, "kept", cases)
    check_seeds(replay, "changed", folder / "seeds", SEEDS)
    if not harness.FULL:
        return
    from random_graphs import check_graphs  # ONNX Runtime takes a second to load
    from sanitizers_check import build

    if build("asan", ["fuzz_replay"]):
        sanitized = harness.ROOT / "build" / "asan" / "fuzz_replay"
        os.environ["ASAN_OPTIONS"] = "detect_leaks=0"
        check_corpus(sanitized, "sanitized", cases)
        check_seeds(sanitized, "sanitized", folder / "seeds", SEEDS // 10)
    wrong = check_graphs(folder / "graphs", GRAPH_SECONDS, first=1)
    harness.check("graphs", wrong == 0, f"{wrong} graphs have another result than ONNX Runtime's")


if __name__ == "__main__":
    harness.need_weft()
    main()
