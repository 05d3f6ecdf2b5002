# test: slow
"""Faults found from outside: each folder's smallest input gives the right value (README.md says what a folder holds)."""

import dataclasses
import importlib.util
import pathlib
import re
import sys

import numpy as np

import harness

FOLDER = pathlib.Path(__file__).resolve().parent
KEYS = {"compile": "", "run": "", "error": "1e-4", "label": "slow"}


@dataclasses.dataclass
class Case:
    name: str  # FIELD/NAME
    folder: pathlib.Path
    out: pathlib.Path


def read_fields(path):
    """The fields of a case.txt; a line that is neither a field nor a comment ends the check."""
    fields = dict(KEYS)
    for line in path.read_text().splitlines():
        match = re.match(r"(\w+): (.*)$", line)
        if match and match[1] in KEYS:
            fields[match[1]] = match[2]
        elif line.strip() and not line.startswith("#"):
            raise ValueError(f"{path}: neither a field nor a comment: {line}")
    return fields


def run_numbers(case, fields):
    """Compiles the model, runs it on the folder's inputs and compares all expected outputs."""
    schedule = case.folder / "schedule.yaml"
    flags = ["--schedule", schedule] if schedule.exists() else []
    program = case.out / "program"
    status, _, err = harness.weft("compile", case.folder / "model.onnx", *flags, *fields["compile"].split(), "-o", program)
    if status != 0:
        return harness.failed(case.name, f"compile: exit {status}: {err[-400:]}")
    arrays = sorted(case.folder.glob("*.npy"))
    inputs = [word for array in arrays if not array.name.startswith("expected_") for word in ("--input", f"{array.stem}={array}")]
    status, _, err = harness.run([program, *inputs, *fields["run"].split(), "--output-dir", case.out])
    if status != 0:
        return harness.failed(case.name, f"run: exit {status}: {err[-400:]}")
    expected = [array for array in arrays if array.name.startswith("expected_")]
    wrong = [line for array in expected if (line := difference(case, array, float(fields["error"])))]
    harness.check(case.name, expected and not wrong, "; ".join(wrong) or "no file expected_NAME.npy")


def difference(case, expected, allowed):
    """How an output differs from the expected one; empty where it does not."""
    name = expected.stem.removeprefix("expected_")
    path = case.out / f"{name}.npy"
    if not path.exists():
        return f"no output {name}"
    found, wanted = np.load(path), np.load(expected)
    if found.shape != wanted.shape or found.dtype != wanted.dtype:
        return f"{name} is {found.dtype}{list(found.shape)}, not {wanted.dtype}{list(wanted.shape)}"
    if wanted.dtype.kind != "f":
        count = int((found != wanted).sum())
        return f"{name} differs at {count} of {wanted.size} places" if count else ""
    finite = np.isfinite(wanted)
    if not np.array_equal(finite, np.isfinite(found)) or not np.array_equal(found[~finite], wanted[~finite], equal_nan=True):
        return f"{name} has other NaN or infinities"
    largest = float(np.abs(wanted[finite]).max(initial=0)) or 1.0
    error = float(np.abs(found[finite] - wanted[finite]).max(initial=0)) / largest
    return f"{name} is off by {error:.1e} of its largest element" if error > allowed else ""


def run_script(case, script):
    spec = importlib.util.spec_from_file_location(case.name.replace("/", "_"), script)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    if getattr(module, "LABEL", "slow") == "slow" or harness.FULL:
        module.run(case)


def main(prefixes):
    harness.need_weft()
    prefixes = [prefix.removeprefix(f"{FOLDER}/") for prefix in prefixes]
    for folder in sorted(path for path in FOLDER.glob("*/*/") if path.name != "__pycache__"):
        name = str(folder.relative_to(FOLDER))
        if prefixes and not name.startswith(tuple(prefixes)):
            continue
        case = Case(name, folder, harness.scratch(f"kept_cases/{name}"))
        if (folder / "case.py").exists():
            run_script(case, folder / "case.py")
            continue
        if not (folder / "case.txt").exists():
            harness.failed(name, "the folder has neither a case.txt nor a case.py")
            continue
        fields = read_fields(folder / "case.txt")
        if fields["label"] == "slow" or harness.FULL:
            run_numbers(case, fields)


main(sys.argv[1:])
