"""Fuzzes: `./dev fuzz [MINUTES]`, MINUTES (30) for raw bytes and as many for cases that keep their structure.

Raw: every target of weft_fuzz without a mutator of its own, under libFuzzer. Structure: mutated models, up to the proof
of the plan and the emitted text, under libFuzzer too, and without it from the seeds alone. At the same time random
graphs are compiled, run and compared with ONNX Runtime (random_graphs.py). Findings lie in build/fuzz_findings, a line
each at the end; exit code 1 if there are any.

    python fuzz.py MINUTES [TARGET...]    these targets only, and `graphs`"""

import os
import pathlib
import shutil
import subprocess
import sys
import time

import harness
from random_graphs import check_graphs
from seeds import write_corpus_seeds, write_seeds

BUILD = harness.ROOT / "build" / "fuzz"
ENGINE, REPLAY = BUILD / "weft_fuzz", BUILD / "fuzz_replay"
FINDINGS = harness.ROOT / "build" / "fuzz_findings"
CORPUS = pathlib.Path(__file__).parent / "corpus"
PROCESSES = 2
# A case may take a minute and 4 GiB; under the sanitizers bytes count about twice.
LIMITS = ["-timeout=60", "-rss_limit_mb=8192", "-malloc_limit_mb=4096", "-max_len=32768"]
GRAPHS_SHARE = 0.25  # of the time for structure
CHANGED_SHARE = 0.35  # the engine reads all that it has learnt again and again; changes of seeds alone are ten times as many
CHANGED_ROUND = 1000


def targets():
    """(name, manner) of each: `structure` or `raw`."""
    _, out, _ = harness.run([REPLAY, "list"])
    return [line.split("\t")[:2] for line in out.splitlines()]


def sanitizers():
    """The environment of a process under sanitizers. Leaks are the process's end."""
    return dict(os.environ, ASAN_OPTIONS="detect_leaks=0:allocator_may_return_null=0", UBSAN_OPTIONS="print_stacktrace=1")


def start(target, seconds, seeds):
    """Runs libFuzzer on one target, and continues after a finding."""
    grown, found = BUILD / "corpus" / target, FINDINGS / target
    grown.mkdir(parents=True, exist_ok=True)
    found.mkdir(parents=True, exist_ok=True)
    begin = [folder for folder in (seeds / target, CORPUS / target) if folder.exists()]
    command = [ENGINE, f"--target={target}", "-fork=1", "-ignore_crashes=1", "-ignore_timeouts=1", "-ignore_ooms=1",
               f"-max_total_time={int(seconds)}", f"-artifact_prefix={found}/", *LIMITS, grown, *begin]
    log = open(FINDINGS / f"{target}.log", "w")
    return subprocess.Popen([str(part) for part in command], stdout=log, stderr=log, env=sanitizers())


def fuzz(names, minutes, seeds):
    """Each target for an equal share of the minutes of one process, two processes at once."""
    waiting, running = list(names), []
    seconds = max(10, minutes * 60 * PROCESSES / max(len(names), PROCESSES))
    while waiting or running:
        while waiting and len(running) < PROCESSES:
            print(f"-- {waiting[0]}: {seconds:.0f} s", flush=True)
            running.append(start(waiting.pop(0), seconds, seeds))
        time.sleep(1)
        running = [process for process in running if process.poll() is None]


def change_seeds(names, seconds, seeds):
    """Changed seeds without an engine, for the seconds of one process, two at once."""
    end, first = time.monotonic() + seconds, int(time.time()) % 10**6 * 1000
    while time.monotonic() < end:
        rounds = []
        for name in names:
            for _ in range(PROCESSES):
                folder = FINDINGS / name
                folder.mkdir(parents=True, exist_ok=True)
                command = [REPLAY, "mutate", name, first, CHANGED_ROUND, folder, *sorted((seeds / name).iterdir())]
                rounds.append(subprocess.Popen([str(part) for part in command], stdout=subprocess.DEVNULL,
                                               stderr=subprocess.DEVNULL, env=sanitizers()))
                first += CHANGED_ROUND
        for process in rounds:
            process.wait()
    print(f"-- changed seeds: up to {first}", flush=True)


def message_of(target, case):
    """The line of a finding that says most: where a sanitizer or the target itself saw it, else how it ended."""
    _, out, err = harness.run([REPLAY, "run", target, case], timeout=120)
    telling = [line for line in err.splitlines() if line.startswith(("finding:", "SUMMARY:")) or "runtime error:" in line]
    return telling[0][:160] if telling else out.strip().rpartition(": ")[2] or "not seen again"


def report():
    """A line a finding, equal ones together; how many there are."""
    seen = {}
    for case in sorted(path for path in FINDINGS.glob("*/*") if path.is_file()):
        seen.setdefault((case.parent.name, message_of(case.parent.name, case)), []).append(case)
    for (target, message), cases in seen.items():
        print(f"{target}: {message}: {len(cases)} cases, the smallest is {min(cases, key=lambda c: c.stat().st_size)}")
    return len(seen)


def main(minutes, wanted):
    shutil.rmtree(FINDINGS, ignore_errors=True)
    FINDINGS.mkdir(parents=True)
    seeds = harness.scratch("fuzz_seeds")
    write_seeds(seeds)
    write_corpus_seeds(seeds)
    known = targets()
    raw = [name for name, manner in known if manner == "raw" and (not wanted or name in wanted)]
    structure = [name for name, manner in known if manner == "structure" and (not wanted or name in wanted)]
    graphs = not wanted or "graphs" in wanted
    fuzz(raw, minutes, seeds)
    fuzz(structure, minutes * (1 - CHANGED_SHARE - GRAPHS_SHARE * graphs), seeds)
    if structure:
        change_seeds(structure, minutes * 60 * CHANGED_SHARE, seeds)
    wrong = check_graphs(FINDINGS / "graphs", minutes * 60 * GRAPHS_SHARE) if graphs else 0
    found = report() + wrong
    print(f"{found} findings")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(float(sys.argv[1]), sys.argv[2:]))
