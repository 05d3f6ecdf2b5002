# test: fast
"""The user interface of an emitted executable: its flags, its files, its exit codes, on one rank and on two."""

import json
import os

import numpy as np

import harness

MODEL = harness.ROOT / "samples" / "mlp" / "mlp.onnxtxt"
SCHEDULE = harness.ROOT / "samples" / "mlp" / "tp2.yaml"
INPUT = np.random.default_rng(3).uniform(-1, 1, (16, 8)).astype(np.float32)


def expected():
    import onnx.parser
    import onnxruntime

    model = onnx.parser.parse_model(MODEL.read_text())
    return onnxruntime.InferenceSession(model.SerializeToString()).run(None, {"x": INPUT})[0]


def compile_to(program, *flags):
    status, out, err = harness.weft("compile", MODEL, "-o", program, *flags)
    return harness.check(f"{program.name}/compile", status == 0, f"exit {status}: {(err or out)[-400:]}")


def check_outputs(program, folder):
    out = folder / f"{program.name}_out"
    status, _, err = harness.run([program, "--input", f"x={folder / 'x.npy'}", "--output-dir", out])
    if not harness.check(f"{program.name}/run", status == 0, f"exit {status}: {err[-400:]}"):
        return
    result, wanted = np.load(out / "residual.npy"), expected()
    error = np.abs(result - wanted).max() / np.abs(wanted).max()
    harness.check(f"{program.name}/result", error < 1e-4, f"error {error}")


def check_flags(program):
    status, out, err = harness.run([program, "--random-inputs", "1", "--iterations", "5", "--warmup", "1", "--json"])
    try:
        latency = json.loads(out)["latency_ms"]
        harness.check(f"{program.name}/json", {"median", "mean", "min", "max", "p90", "p99"} <= set(latency), latency)
    except (ValueError, KeyError) as error:
        harness.failed(f"{program.name}/json", f"exit {status}: {error!r}: {(out + err)[-300:]}")
    status, out, err = harness.run([program, "--info"])
    try:
        information = json.loads(out)
        harness.check(f"{program.name}/info", "inputs" in information and "outputs" in information, list(information))
    except ValueError as error:
        harness.failed(f"{program.name}/info", f"exit {status}: {error!r}: {(out + err)[-300:]}")
    status, _, err = harness.run([program, "--bind", "--threads", "1", "--random-inputs", "1"])
    ranks, cores = json.loads(out)["ranks"], len(os.sched_getaffinity(0))
    too_few = "" if ranks <= cores else f"there are {cores}"
    harness.check(f"{program.name}/bind", status == (2 if too_few else 0) and too_few in err, f"exit {status}: {err[-300:]}")
    status, _, err = harness.run([program, "--bind", "--threads", cores + 1, "--random-inputs", "1"])
    harness.check(f"{program.name}/bind to more cores than there are", status == 2 and f"there are {cores}" in err,
                  f"exit {status}: {err[-300:]}")
    status, _, err = harness.run([program, "--poison", "--random-inputs", "1", "--iterations", "2"])
    harness.check(f"{program.name}/poison", status == 0, f"exit {status}: {err[-300:]}")


def check_refusals(program, folder):
    """Wrong use ends with the exit code that says whose fault it was, and never with a signal."""
    np.save(folder / "narrow.npy", INPUT[:, :3])
    np.save(folder / "double.npy", INPUT + np.float64(1e-12))
    (folder / "not.npy").write_text("not an array")
    rows = (
        ("no-such-flag", ["--no-such-flag"], 2),
        ("unknown-input", ["--input", f"nobody={folder / 'x.npy'}"], 1),
        ("missing-file", ["--input", f"x={folder / 'nowhere.npy'}"], 1),
        ("wrong-shape", ["--input", f"x={folder / 'narrow.npy'}"], 1),
        ("wrong-dtype", ["--input", f"x={folder / 'double.npy'}"], 1),
        ("not-an-array", ["--input", f"x={folder / 'not.npy'}"], 1),
    )
    for name, flags, wanted in rows:
        status, _, err = harness.run([program, *flags])
        harness.check(f"{program.name}/{name}", status == wanted and err.strip(), f"exit {status}, not {wanted}: {err[-200:]}")


def check_emitted_source(folder):
    """The same inputs give the same bytes, and the folder builds without the compiler."""
    for name in ("first", "second"):
        status, out, err = harness.weft("compile", MODEL, "--schedule", SCHEDULE, "--emit", "source", "-o", folder / name)
        if not harness.check(f"source/{name}", status == 0, f"exit {status}: {(err or out)[-300:]}"):
            return
    listing = [sorted(p.relative_to(folder / n) for p in (folder / n).rglob("*") if p.is_file()) for n in ("first", "second")]
    differing = [str(p) for p in listing[0] if (folder / "first" / p).read_bytes() != (folder / "second" / p).read_bytes()]
    harness.check("source/deterministic", listing[0] == listing[1] and not differing, f"differ: {differing}")
    steps = (["cmake", "-S", folder / "first", "-B", folder / "build", "-G", "Ninja", "-DCMAKE_BUILD_TYPE=Release"],
             ["cmake", "--build", folder / "build", "-j", str(harness.JOBS)])
    for step in steps:
        status, out, err = harness.run(step)
        if status != 0:
            harness.failed("source/build", f"exit {status}: {(err or out)[-400:]}")
            return
    harness.passed("source/build")


def main():
    folder = harness.scratch("program")
    np.save(folder / "x.npy", INPUT)
    for name, flags in (("one_rank", []), ("two_ranks", ["--schedule", SCHEDULE])):
        program = folder / name
        if compile_to(program, *flags):
            check_outputs(program, folder)
            check_flags(program)
            check_refusals(program, folder)
    check_emitted_source(folder)


harness.need_weft()
main()
