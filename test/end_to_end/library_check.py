# test: slow
"""--emit library: GPT-2 as a shared library, on one rank and two. samples/library links it by its CMake package; its C
functions are also called from here, and say what is wrong."""

import ctypes
import os
import pathlib
import subprocess
import sys

import numpy as np
import onnxruntime

import harness

SAMPLES = harness.ROOT / "samples"
WORDS, BOUND = 101, 64
SIZE = ["--layers", "2", "--width", "32", "--heads", "4", "--vocab", str(WORDS), "--context", str(BOUND)]
PROMPT = [5, 17, 80, 3]
TOLERANCE = 1e-4


def greedy(session, tokens, count):
    text = list(tokens)
    for _ in range(count):
        text.append(int(session.run(None, {"input_ids": np.array([text])})[0][0, -1].argmax()))
    return text[len(tokens):]


# One rank of a job: the model's functions on rank 0, its destruction on the others.
JOB = """
import ctypes, os, sys
import numpy as np
sys.path[:0] = [{tests!r}, {here!r}]
from library_check import Model
model = Model({library!r}, "create_rank")
assert model.error() == "", model.error()
if os.environ["RANK"] == "0":
    for tokens in ([[5, 17]], [[80]]):
        assert model.set_input("input_ids", np.array(tokens)) == 0 and model.run() == 0, model.error()
    np.save({result!r}, model.output("logits"))
else:
    assert model.run() == 0 and model.output("logits") == 1, model.error()
model.destroy()
"""


def check_job(name, library, folder, session):
    result = folder / "job.npy"
    script = JOB.format(tests=str(harness.ROOT / "test"), here=str(harness.ROOT / "test" / "end_to_end"), library=str(library),
                        result=str(result))
    jobs = [subprocess.Popen([sys.executable, "-c", script], stderr=subprocess.PIPE, text=True,
                             env={**os.environ, "RANK": str(rank), "WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2",
                                  "MASTER_PORT": str(os.getpid())}) for rank in (0, 1)]
    ends = [(job.communicate(timeout=120)[1][-300:], job.returncode) for job in jobs]
    if harness.check(f"{name}/ranks of a job", all(code == 0 for _, code in ends), ends):
        wanted = session.run(None, {"input_ids": np.array([[5, 17, 80]])})[0][:, -1:]
        error = harness.relative_error(np.load(result), wanted)
        harness.check(f"{name}/result of a job", error <= TOLERANCE, f"error {error}")


class Model:
    """The C functions, as NAME.h declares them."""

    def __init__(self, library, create="create", name="gpt2"):
        self.library, self.name = ctypes.CDLL(str(library)), name
        self.function(create).restype = ctypes.c_void_p
        self.function("error").restype = ctypes.c_char_p
        self.model = ctypes.c_void_p(self.function(create)(1))

    def function(self, name):
        return getattr(self.library, f"{self.name}_{name}")

    def error(self):
        return self.function("error")(self.model).decode()

    def set_input(self, name, array, size=None, shape=None):
        shape = (ctypes.c_int64 * array.ndim)(*(shape or array.shape))
        return self.function("set_input")(self.model, name.encode(), array.ctypes.data_as(ctypes.c_void_p),
                                           ctypes.c_size_t(array.nbytes if size is None else size), shape, array.ndim)

    def run(self):
        return self.function("run")(self.model)

    def reset(self):
        return self.function("reset")(self.model)

    def output(self, name, dtype=np.float32):
        data, shape = ctypes.c_void_p(), ctypes.POINTER(ctypes.c_int64)()
        size, ndim = ctypes.c_size_t(), ctypes.c_int()
        code = self.function("get_output")(self.model, name.encode(), ctypes.byref(data), ctypes.byref(size),
                                            ctypes.byref(shape), ctypes.byref(ndim))
        if code != 0:
            return code
        elements = ctypes.cast(data, ctypes.POINTER(ctypes.c_char * size.value)).contents
        return np.frombuffer(elements, dtype).reshape(shape[:ndim.value]).copy()

    def destroy(self):
        self.function("destroy")(self.model)


def check_functions(name, library, session):
    model = Model(library)
    harness.check(f"{name}/made", model.error() == "", model.error())
    for what, wanted, call in (
        ("nothing set", "input 'input_ids' (i64, 1x<=64) is not set", model.run),
        ("unknown input", "there is no input 'input_idss' (did you mean 'input_ids'?)",
         lambda: model.set_input("input_idss", np.zeros((1, 2), int))),
        ("shape", "shape 2x2", lambda: model.set_input("input_ids", np.zeros((2, 2), int))),
        ("negative shape", "shape 1x-2", lambda: model.set_input("input_ids", np.zeros((1, 2), int), -16, (1, -2))),
        ("bytes", "15 bytes", lambda: model.set_input("input_ids", np.zeros((1, 2), int), 15)),
        ("no output yet", "nothing has run", lambda: model.output("logits")),
        ("reset before a run", "", model.reset),
        ("still nothing set", "is not set", model.run),
    ):
        code = call()
        harness.check(f"{name}/{what}", code == bool(wanted) and wanted in model.error(), f"{code}, {model.error()}")
    first = None
    for turn in range(2):
        text = []
        for step in (PROMPT, [9], [44, 2]):
            text += step
            model.set_input("input_ids", np.array([step]))
            harness.check(f"{name}/run {turn}, {len(text)} tokens", model.run() == 0, model.error())
        logits, wanted = model.output("logits"), session.run(None, {"input_ids": np.array([text])})[0][:, -2:]
        error = harness.relative_error(logits, wanted)
        harness.check(f"{name}/result {turn}", logits.shape == wanted.shape and error <= TOLERANCE, f"error {error}")
        first = logits if turn == 0 else first
        harness.check(f"{name}/reset {turn}", model.reset() == 0, model.error())
    harness.check(f"{name}/states begin anew", np.array_equal(first, logits), "other logits")
    model.set_input("input_ids", np.array([PROMPT]))
    model.run()
    model.set_input("input_ids", np.zeros((1, BOUND), int))
    code, error = model.run(), model.error()
    harness.check(f"{name}/outgrown", code == 1 and f"more than its bound of {BOUND}" in error, f"{code}, {error}")
    harness.check(f"{name}/no output of a run that failed", model.output("logits") == 1, "the one before")
    model.set_input("input_ids", np.array([PROMPT]))
    harness.check(f"{name}/inputs outlive a reset", model.reset() == 0 and model.run() == 0, model.error())
    error = harness.relative_error(model.output("logits"), session.run(None, {"input_ids": np.array([PROMPT])})[0])
    harness.check(f"{name}/result of inputs set before a reset", error <= TOLERANCE, f"error {error}")
    model.destroy()
    before = mappings()
    for _ in range(5):
        Model(library).destroy()
    harness.check(f"{name}/memory is given back", mappings() <= before + 2, f"{before} mappings, then {mappings()}")


def mappings():
    return len(pathlib.Path("/proc/self/maps").read_text().splitlines())


def check_sample(name, package, folder, session):
    build = folder / f"{name}_build"
    for step in (["cmake", "-S", SAMPLES / "library", "-B", build, "-G", "Ninja", f"-DCMAKE_PREFIX_PATH={package}"],
                 ["cmake", "--build", build]):
        status, out, err = harness.run(step)
        if not harness.check(f"{name}/sample: {step[1]}", status == 0, f"exit {status}: {(err or out)[-400:]}"):
            return
    status, out, err = harness.run([build / "decode", "12", *map(str, PROMPT)])
    harness.check(f"{name}/sample", status == 0 and list(map(int, out.split())) == greedy(session, PROMPT, 12),
                  f"exit {status}: {out} {err}")
    status, out, err = harness.run([build / "decode", "2", *["1"] * (BOUND + 1)])
    harness.check(f"{name}/sample: too long", status == 1 and "shape 1x65" in err, f"exit {status}: {err}")


def check_symbols(name, library):
    """Two libraries in one process do not call each other: nothing but the header's functions is exported."""
    status, out, _ = harness.run(["nm", "-D", "--defined-only", library])
    exported = sorted(line.split()[-1] for line in out.splitlines())
    wanted = sorted(f"gpt2_{each}" for each in ("create", "create_rank", "destroy", "set_input", "run", "get_output", "reset", "error"))
    harness.check(f"{name}/symbols", status == 0 and exported == wanted, f"{exported[:20]}")


def main():
    folder = harness.scratch("library")
    session = onnxruntime.InferenceSession(harness.make_gpt2(folder / "whole.onnx", *SIZE), providers=["CPUExecutionProvider"])
    model = harness.make_gpt2(folder / "gpt2.onnx", *SIZE, "--past")
    for name in ("decode", "decode_tp2"):
        package = folder / name
        status, _, err = harness.weft("compile", model, "--schedule", SAMPLES / "gpt2" / f"{name}.yaml", "--emit", "library",
                                      "-o", package, "--quiet")
        if not harness.check(f"{name}/compiles", status == 0, f"exit {status}: {err[-400:]}"):
            continue
        library = package / "lib" / "libgpt2.so"
        check_symbols(name, library)
        check_functions(name, library, session)
        check_sample(name, package, folder, session)
        if name == "decode_tp2":
            check_job(name, library, folder, session)
    status, _, err = harness.weft("compile", model, "--schedule", SAMPLES / "gpt2" / "decode.yaml", "--emit", "library",
                                  "--target", "cuda", "-o", folder / "cuda")
    harness.check("cuda", status == 3 and "library-unsupported" in err, f"exit {status}: {err[-200:]}")


if __name__ == "__main__":
    harness.need_weft()
    main()
