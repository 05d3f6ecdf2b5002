# test: fast
"""Wrong .npy files, missing inputs and places that cannot be written, at compile time and at run time."""

import os

import numpy as np

import harness

FOLDER = harness.scratch("bad_arrays")
MODEL = FOLDER / "add.onnxtxt"
TEXT = """<ir_version: 8, opset_import: ["" : 17]>
add (float[2,3] x, float[2,3] z) => (float[2,3] y) { y = Add(x, z) }
"""
GOOD = np.arange(6, dtype=np.float32).reshape(2, 3)


def header(text, data=b"\0" * 24, version=b"\x01\x00"):
    body = text.encode().ljust(118) + b"\n"
    return b"\x93NUMPY" + version + len(body).to_bytes(2, "little") + body + data


def described(descr="'<f4'", order="False", shape="(2, 3)"):
    return f"{{'descr': {descr}, 'fortran_order': {order}, 'shape': {shape}, }}"


def arrays():
    """Rows of name, bytes of the file."""
    np.save(FOLDER / "good.npy", GOOD)
    good = (FOLDER / "good.npy").read_bytes()
    yield "empty", b""
    yield "no-array", b"hello"
    yield "cut-in-the-header", good[:40]
    yield "cut-in-the-data", good[:-4]
    yield "too-much-data", good + b"\0" * 4
    yield "wrong-magic", b"\x93NUMPZ" + good[6:]
    yield "version-of-the-future", good[:6] + b"\x09\x00" + good[8:]
    yield "header-length", good[:8] + b"\xff\xff" + good[10:]
    yield "big-endian", header(described("'>f4'"))
    yield "double-that-no-float-is", header(described("'<f8'"), np.full(6, 0.1).tobytes())
    yield "object-dtype", header(described("'|O'"))
    yield "structured-dtype", header(described("[('a', '<f4')]"))
    yield "other-shape", header(described(shape="(3, 2)"))
    yield "other-ndim", header(described(shape="(6,)"))
    yield "negative-shape", header(described(shape="(-2, -3)"))
    yield "huge-shape", header(described(shape="(4611686018427387904, 4611686018427387904)"))
    yield "no-shape", header("{'descr': '<f4', 'fortran_order': False, }")
    yield "no-dict", header("__import__('os').system('false')")


def outcome(name, status, wanted, err):
    lines = [line for line in err.strip().split("\n") if line]
    harness.check(name, status == wanted and lines, f"exit {status}, not {wanted}: {err[-300:]}")


def check_arrays(program):
    for name, data in arrays():
        path = FOLDER / f"{name}.npy"
        path.write_bytes(data)
        status, _, err = harness.run([program, "--input", f"x={path}", "--input", f"z={FOLDER / 'good.npy'}"], timeout=30)
        outcome(f"run/{name}", status, 1, err)
        status, _, err = harness.weft("compile", MODEL, "--bind", f"z={path}", "-o", FOLDER / "bound", timeout=60)
        outcome(f"bind/{name}", status, 1, err)


def check_inputs(program):
    x, z = f"x={FOLDER / 'good.npy'}", f"z={FOLDER / 'good.npy'}"
    rows = (
        ("one-missing", ["--input", x], 1),
        ("all-missing", [], 1),
        ("unknown", ["--input", x, "--input", z, "--input", f"q={FOLDER / 'good.npy'}"], 1),
        ("twice", ["--input", x, "--input", x], 2),
        ("no-file", ["--input", x, "--input", f"z={FOLDER / 'nowhere.npy'}"], 1),
        ("a-folder", ["--input", x, "--input", f"z={FOLDER}"], 1),
        ("no-name", ["--input", "good.npy"], 2),
        ("no-seed", ["--random-inputs", "many"], 2),
        ("negative-iterations", ["--random-inputs", "1", "--iterations", "-3"], 2),
        ("output-is-a-file", ["--input", x, "--input", z, "--output-dir", FOLDER / "good.npy"], 1),
        ("output-in-no-folder", ["--input", x, "--input", z, "--output-dir", "/proc/nobody/out"], 1),
        ("load-state-without-states", ["--input", x, "--input", z, "--load-state", FOLDER], 2),
        ("save-state-without-states", ["--input", x, "--input", z, "--save-state", FOLDER / "saved"], 2),
        ("threads-of-nobody", ["--input", x, "--input", z, "--threads", "0"], 2),
        ("no-timeout", ["--input", x, "--input", z, "--timeout", "soon"], 2),
        ("timeout-of-no-number", ["--input", x, "--input", z, "--timeout", "nan"], 2),
        ("trace-is-a-folder", ["--input", x, "--input", z, "--trace", FOLDER], 1),
        ("trace-in-no-folder", ["--input", x, "--input", z, "--trace", FOLDER / "nowhere" / "trace.json"], 1),
    )
    for name, flags, wanted in rows:
        status, _, err = harness.run([program, *flags], timeout=30)
        outcome(f"run/{name}", status, wanted, err)


def check_states():
    """Two states of one bounded dim: what --load-state names must be there and agree."""
    fixture = harness.ROOT / "test" / "fixtures" / "kv_state"
    program, state = FOLDER / "kv", FOLDER / "state"
    status, out, err = harness.weft("compile", f"{fixture}.onnxtxt", "--schedule", f"{fixture}.yaml", "-o", program)
    if not harness.check("states/compile", status == 0, f"exit {status}: {(err or out)[-300:]}"):
        return
    state.mkdir()
    rows = (
        ("agree", 3, 3, state, 0, ""),
        ("differ", 3, 5, state, 1, "dimension 2 has length 3"),
        ("too-long", 9, 9, state, 1, "<=8"),
        ("no-folder", 3, 3, FOLDER / "nowhere", 1, "--load-state"),
        ("a-file", 3, 3, FOLDER / "good.npy", 1, "not a folder"),
        ("an-empty-folder", 3, 3, FOLDER, 1, "past_k.npy: No such file"),
    )
    for name, k, v, folder, wanted, text in rows:
        for file, length in (("past_k", k), ("past_v", v)):
            np.save(state / f"{file}.npy", np.zeros((1, 4, length, 8), np.float32))
        status, _, err = harness.run([program, "--random-inputs", "1", "--load-state", folder], timeout=30)
        ok = status == wanted and text in err and len(err.strip().splitlines()) == (wanted != 0)
        harness.check(f"states/{name}", ok, f"exit {status}, not {wanted}: {err[-300:]}")


def check_compile_paths():
    (FOLDER / "file").write_text("")
    rows = (
        ("is-a-folder", ["-o", FOLDER], 1),
        ("no-such-folder", ["-o", FOLDER / "nowhere" / "program"], 1),
        ("below-a-file", ["--emit", "source", "-o", FOLDER / "file" / "sources"], 1),
        ("no-path", [], 2),
        ("unknown-flag", ["-o", FOLDER / "p", "--fast"], 2),
        ("unknown-pass", ["-o", FOLDER / "p", "--stop-after", "everything"], 2),
        ("unknown-arch", ["-o", FOLDER / "p", "--arch", "z80"], 2),
        ("dim-without-value", ["-o", FOLDER / "p", "--dim", "batch"], 2),
        ("dim-of-nobody", ["-o", FOLDER / "p", "--dim", "batch=2"], 1),
        ("shape-of-nobody", ["-o", FOLDER / "p", "--shape", "q=2x3"], 1),
        ("shape-that-differs", ["-o", FOLDER / "p", "--shape", "x=3x2"], 1),
        ("bind-of-nobody", ["-o", FOLDER / "p", "--bind", f"q={FOLDER / 'good.npy'}"], 1),
        ("bind-without-file", ["-o", FOLDER / "p", "--bind", f"z={FOLDER / 'nowhere.npy'}"], 1),
        ("unknown-cuda-arch", ["-o", FOLDER / "p", "--target", "cuda", "--arch", "foo"], 2),
        ("old-cuda-arch", ["-o", FOLDER / "p", "--target", "cuda", "--arch", "sm_70"], 2),
        ("mpi-on-cuda", ["-o", FOLDER / "p", "--transport", "mpi", "--target", "cuda"], 3),
    )
    for name, flags, wanted in rows:
        status, _, err = harness.weft("compile", MODEL, *flags, timeout=60)
        outcome(f"compile/{name}", status, wanted, err)
    harness.check("compile/nothing-left", not (FOLDER / "p").exists(), "a refused compilation left a file")
    if os.path.exists("/dev/full"):
        status, _, err = harness.weft("compile", MODEL, "-o", FOLDER / "p", "--report", "/dev/full", timeout=60)
        outcome("compile/report-on-a-full-disk", status, 6, err)


def main():
    MODEL.write_text(TEXT)
    program = FOLDER / "program"
    status, out, err = harness.weft("compile", MODEL, "-o", program)
    if not harness.check("compile", status == 0, f"exit {status}: {(err or out)[-300:]}"):
        return
    check_arrays(program)
    check_inputs(program)
    check_states()
    check_compile_paths()


harness.need_weft()
main()
