# test: slow
"""The package of ./dev gpu-test, and the script that runs it. Three programs (in `full` a training too), built for the
emulation, pass. With a changed expected file, or an executable that fails, they fail."""

import json
import pathlib
import sys

import numpy as np

import harness

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "emulation"))
import emulate  # noqa: E402

PROGRAMS = ("mlp_tp2", "mlp_tp2_overlap", "rounds_tp2")
TRAINING = "train_gpt2_pp2"
ROUNDS = 4


def packed(folder):
    """The packed folder with only these programs, or None."""
    for name in [*PROGRAMS, *[TRAINING] * harness.FULL]:
        part = folder / name
        status, out, err = harness.run([sys.executable, HERE / "pack.py", part, "--only", name, "--rounds", ROUNDS])
        if not harness.check(f"pack/{name}", status == 0, err or out):
            return None
        error = emulate.build_program(part / "programs" / name, part / "executables" / name / name, jobs=harness.JOBS)
        if not harness.check(f"build/{name}", not error, error[-400:]):
            return None
    return folder


def run(part):
    """(exit code, last line, result.json)."""
    status, out, _ = harness.run([part / "run", "--executables", part / "executables"])
    return status, out.strip().split("\n")[-1], json.loads((part / "result.json").read_text())


def cases_of(result, outcome):
    return {case["name"] for case in result["cases"] if case["outcome"] == outcome}


def check_good(part, name, case="poisoned"):
    status, line, result = run(part)
    passed = cases_of(result, "PASS")
    harness.check(f"good/{name}", status == 0 and f"{name}/{case}" in passed and " 0 failed" in line,
                  f"exit {status}, {line}: {result['cases']}")


def check_noticed(part, name, what, case="poisoned"):
    status, line, result = run(part)
    failed = cases_of(result, "FAIL")
    harness.check(f"{what}/{name}", status == 1 and f"{name}/{case}" in failed, f"exit {status}, {line}: {result['cases']}")


def change_wanted(part, change):
    for file in part.glob("data/*/wanted/*.npy"):
        array = np.load(file)
        change(array)
        np.save(file, array)


def nudge(array):
    array.flat[array.size // 2] += 2e-4 * np.abs(array).max()


def spoil(array):
    array.flat[0] = np.nan


def break_executable(part, name):
    program = part / "executables" / name / name
    program.unlink()
    program.write_text("#!/bin/sh\nexit 70\n")
    program.chmod(0o755)


def check_without_gpu(part):
    if pathlib.Path("/dev/nvidia0").exists():
        harness.skipped("no GPU", "this machine has one")
        return
    status, _, err = harness.run([part / "run"])
    harness.check("no GPU", status == 6 and len(err.strip().split("\n")) == 1, f"exit {status}: {err}")


def main():
    folder = packed(harness.scratch("gpu"))
    if folder is None:
        return
    for name in PROGRAMS:
        check_good(folder / name, name)
    check_without_gpu(folder / "mlp_tp2")
    change_wanted(folder / "mlp_tp2", nudge)
    check_noticed(folder / "mlp_tp2", "mlp_tp2", "changed")
    change_wanted(folder / "rounds_tp2", spoil)
    check_noticed(folder / "rounds_tp2", "rounds_tp2", "NaN")
    break_executable(folder / "mlp_tp2_overlap", "mlp_tp2_overlap")
    check_noticed(folder / "mlp_tp2_overlap", "mlp_tp2_overlap", "broken")
    if harness.FULL:
        check_good(folder / TRAINING, TRAINING, "losses")
        cases = folder / TRAINING / "cases.json"
        packed_cases = json.loads(cases.read_text())
        packed_cases["programs"][0]["losses"][-1] *= 1.001
        cases.write_text(json.dumps(packed_cases))
        check_noticed(folder / TRAINING, TRAINING, "changed", "losses")


harness.need_weft()
main()
