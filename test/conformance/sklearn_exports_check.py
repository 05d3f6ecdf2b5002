# test: slow
"""scikit-learn's models as skl2onnx exports them (exports/make_sklearn.py), with `rows` open to a bound. One executable
matches ONNX Runtime for each number of rows, missing values included, also on two ranks with the rows sliced. In `full`
they are trained and exported anew."""

import pathlib

import numpy as np
import onnx
import onnxruntime

import harness
from exported_anew import exported_anew

EXPORTS = pathlib.Path(__file__).resolve().parent / "exports" / "sklearn"
BOUND = 64
ROWS = (1, 5, 32, BOUND)
TOLERANCE = 1e-4
TWO_RANKS = """weft: 1
mesh: {dp: 2}
shard: {X: {dp: 0}}
"""


def rows_of(count, name):
    generator = np.random.default_rng(count)
    if name.startswith("string"):
        return np.array(["red", "green", "blue", "päle", "none"])[generator.integers(0, 5, (count, 8))]
    has_holes = "hist" in name
    rows = generator.normal(size=(count, 8)).astype(np.float32) * 2
    return np.where(generator.random(rows.shape) < 0.1, np.float32(np.nan), rows) if has_holes else rows


def as_array(result):
    """ZipMap gives maps; Weft's program has their numbers. NumPy keeps strings of one width."""
    if isinstance(result, list):
        return np.array([list(row.values()) for row in result], np.float32)
    return result.astype("U") if result.dtype == object else result


def error_of(found, wanted):
    if wanted.dtype.kind == "U":
        return "" if np.array_equal(found, wanted) else f"{found}, not {wanted}"
    if found.shape != wanted.shape or found.dtype != wanted.dtype:
        return f"{found.dtype} {found.shape}, not {wanted.dtype} {wanted.shape}"
    error = float(np.max(np.abs(found.astype(np.float64) - wanted)) / max(np.max(np.abs(wanted)), 1e-30))
    return "" if error <= TOLERANCE else f"relative error {error:.1e}"


def check_rows(name, program, session, folder, count):
    rows = rows_of(count, name)
    np.save(folder / "rows.npy", rows)
    status, _, err = harness.run([program, "--input", f"X={folder / 'rows.npy'}", "--output-dir", folder / "out"])
    if not harness.check(f"{name}/runs", status == 0, f"exit {status}: {err[-300:]}"):
        return
    for output, wanted in zip(session.get_outputs(), session.run(None, {"X": rows.astype(object) if rows.dtype.kind == "U" else rows})):
        error = error_of(np.load(folder / "out" / f"{output.name}.npy"), as_array(wanted))
        harness.check(f"{name}/{output.name}", not error, error)


def check_program(name, model, session, folder, flags, counts):
    program = folder / "program"
    status, _, err = harness.weft("compile", model, *flags, "-o", program, "--quiet", timeout=300)
    if not harness.check(f"{name}/compiles", status == 0, f"exit {status}: {err[-400:]}"):
        return
    for count in counts:
        check_rows(f"{name}/{count}", program, session, folder, count)


def check_export(model):
    folder = harness.scratch(f"sklearn_exports/{model.stem}")
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    check_program(f"{model.stem}/bounded", model, session, folder, ["--dim", f"rows<={BOUND}"], ROWS)
    if any(node.op_type.startswith("TreeEnsemble") for node in onnx.load(model).graph.node):
        schedule = folder / "two_ranks.yaml"
        schedule.write_text(TWO_RANKS)
        check_program(f"{model.stem}/two_ranks", model, session, folder,
                      ["--dim", "rows=32", "--schedule", schedule], [32])


def main():
    folder = EXPORTS
    if harness.FULL:
        names = sorted(model.stem for model in EXPORTS.glob("*.onnx"))
        folder = exported_anew(EXPORTS.parent / "make_sklearn.py", "requirements_sklearn.txt", EXPORTS, names)
    for each in sorted(folder.glob("*.onnx")):
        check_export(each)


if __name__ == "__main__":
    harness.need_weft()
    main()
