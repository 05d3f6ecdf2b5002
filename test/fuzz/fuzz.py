"""Fuzzes: `./dev fuzz [MINUTES]`, MINUTES (30) for raw bytes and as many for cases that keep their structure.

Raw: every target of weft_fuzz that has no way of its own to change a case, under libFuzzer. Structure: changed models, to the proof
of the plan and the emitted text, under libFuzzer too; beside them random graphs that are compiled, run and compared with ONNX Runtime
(random_graphs.py). Findings lie in build/fuzz_findings, a line each at the end; exit code 1 if there are any.

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


def targets():
    """(name, manner) of each: `structure` or `raw`."""
    _, out, _ = harness.run([REPLAY, "list"])
    return [line.split("\t")[:2] for line in out.splitlines()]


def start(target, seconds, seeds):
    """libFuzzer on one target, which goes on behind a finding."""
    grown, found = BUILD / "corpus" / target, FINDINGS / target
    grown.mkdir(parents=True, exist_ok=True)
    found.mkdir(parents=True, exist_ok=True)
    begin = [folder for folder in (seeds / target, CORPUS / target) if folder.exists()]
    command = [ENGINE, f"--target={target}", "-fork=1", "-ignore_crashes=1", "-ignore_timeouts=1", "-ignore_ooms=1",
               f"-max_total_time={int(seconds)}", f"-artifact_prefix={found}/", *LIMITS, grown, *begin]
    log = open(FINDINGS / f"{target}.log", "w")
    # Leaks are the process's end; exceptions that are caught and thrown again are how readers refuse.
    environment = dict(os.environ, ASAN_OPTIONS="detect_leaks=0:allocator_may_return_null=0", UBSAN_OPTIONS="print_stacktrace=1")
    return subprocess.Popen([str(part) for part in command], stdout=log, stderr=log, env=environment)


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
    fuzz(structure, minutes * (1 - GRAPHS_SHARE * graphs), seeds)
    wrong = check_graphs(FINDINGS / "graphs", minutes * 60 * GRAPHS_SHARE) if graphs else 0
    found = report() + wrong
    print(f"{found} findings")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(float(sys.argv[1]), sys.argv[2:]))
