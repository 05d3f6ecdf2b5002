"""Many models against known results in one compiler run: `weft verify-many --list FILE --jobs N`.

FILE has one case a line: name, model, data folder (input_N and output_N as .pb or .npy; `-` for seeded inputs and the
reference evaluation) and further flags (those of models, --schedule and --tolerance), with tabs between them. Open dims and inputs that determine a shape are pinned from the data. The
compiler prints one JSON object a case, as soon as it knows: {"case": name, "status": S, "detail": text}; S is one of

    passed     compiled, ran, equal within tolerance
    refused    a diagnostic (exit 1 or 3); detail starts with its id
    no_kernel  the reference evaluation is right, but the backend has no kernel for it yet
    wrong      ran, results differ
    failed     the compiler, the toolchain or the program broke
"""

import collections
import json
import os
import subprocess
import threading

import harness

SECONDS_A_CASE = 60
MAX_RESTARTS = 20

Case = collections.namedtuple("Case", "name model data flags", defaults=("",))
Result = collections.namedtuple("Result", "case status detail")


def verify_many(cases, folder, compiler=None, run_args=""):
    """One Result for each case. A compiler that dies is started again without the cases it has answered. `compiler`: an
    Emulated, whose --target cuda is meant, else the build's own. `run_args`: of each program."""
    left, results, restarts = list(cases), [], 0
    while left:
        answered, ending = run_once(left, folder, compiler, run_args)
        results += answered
        done = {result.case for result in answered}
        left = [case for case in left if case.name not in done]
        if left and not answered:
            results.append(Result(left.pop(0).name, "failed", f"no answer: {ending}"))
        if left and restarts == MAX_RESTARTS:
            results += [Result(case.name, "failed", f"no answer after {restarts} restarts: {ending}") for case in left]
            break
        restarts += 1
    order = {case.name: index for index, case in enumerate(cases)}
    return sorted(results, key=lambda result: order[result.case])


def run_once(cases, folder, compiler, run_args):
    listing = folder / "cases.txt"
    listing.write_text("".join("\t".join(map(str, case)).rstrip("\t") + "\n" for case in cases))
    command = compiler.command("verify-many") if compiler else harness.weft_command("verify-many")
    command += ["--list", listing, "--jobs", str(harness.JOBS)]
    command += ["--run-args", run_args] if run_args else []
    log = open(folder / "stderr.txt", "a+")
    process = subprocess.Popen([str(part) for part in command], stdout=subprocess.PIPE, stderr=log, text=True,
                               cwd=folder, start_new_session=True, env=compiler.environment if compiler else None)
    timer = threading.Timer(120 + SECONDS_A_CASE * len(cases), lambda: os.killpg(process.pid, 9))
    timer.start()
    results = []
    for line in process.stdout:
        if line.startswith("{"):
            row = json.loads(line)
            results.append(Result(row["case"], row["status"], row.get("detail", "")))
    status = process.wait()
    timer.cancel()
    log.seek(0)
    ending = f"exit {status}: {log.read()[-300:]}"
    log.close()
    return results, ending


def report(results):
    """PASS, FAIL or SKIP for each result; a refusal is skipped with its diagnostic as the reason."""
    for case, status, detail in results:
        if status == "passed":
            harness.passed(case)
        elif status in ("refused", "no_kernel"):
            harness.skipped(case, f"{status}: {detail}")
        else:
            harness.failed(case, f"{status}: {detail}")


def report_complete(results, refused=()):
    """The same where every case has to pass: a refusal is a failure, but of the cases that `refused` names with the id of
    the diagnostic; and these have to be refused so."""
    expected = dict(refused)
    for case, status, detail in results:
        if case in expected:
            harness.check(case, status == "refused" and detail.startswith(expected[case]),
                          f"{status}: {detail}; expected a refusal with {expected[case]}")
        elif status in ("refused", "no_kernel"):
            harness.failed(case, f"{status}: {detail}")
        else:
            report([Result(case, status, detail)])


def check_floor(pack, results):
    """Fails when fewer cases of a pack pass than floor.json says: what once worked goes on working."""
    floors = json.loads((harness.ROOT / "test" / "conformance" / "floor.json").read_text())
    count = sum(result.status == "passed" for result in results)
    harness.check(f"{pack}/floor", count >= floors.get(pack, 0), f"{count} passed, {floors.get(pack, 0)} did before")


def print_summary(results):
    counts = collections.Counter(result.status for result in results)
    print(", ".join(f"{count} {status}" for status, count in counts.most_common()))
    reasons = collections.Counter(
        (result.status, result.detail[:100]) for result in results if result.status != "passed")
    for (status, detail), count in reasons.most_common(40):
        print(f"{count:>6}  {status}: {detail}")
