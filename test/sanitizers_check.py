# test: slow, long
"""Everything that runs, under sanitizers: a thirty-sixth of the fixtures' programs (`full`: all, and the compiler's tests) and the
runtime under the address and undefined-behaviour ones; another thirty-sixth with ranks as threads, and the runtime, under the
thread one.

A fixture's program is what `weft verify-many` builds, runs and compares with the reference evaluation: a compiler named
g++ stands first in PATH, adds the sanitizers, and links the runtime library that was built with them."""

import contextlib
import os
import shutil

import numpy as np
import unit_check

import harness
from fixture_turns import FIXTURES, fixtures_of, verify_fixtures

WRAPPER = """#!/bin/sh
# -s would take the names out of a report; optimising further only costs time here.
for word; do
  shift
  case $word in
    -s) continue ;;
    -O3) word=-Og ;;
    */libweft_runtime.a) word={runtime} ;;
  esac
  set -- "$@" "$word"
done
exec {compiler} {flags} -fno-omit-frame-pointer "$@"
"""
FLAGS = {"asan": "-fsanitize=address,undefined -fno-sanitize-recover=all", "tsan": "-fsanitize=thread"}
MARKS = {"asan": [b"__asan_init", b"__ubsan_handle"], "tsan": [b"__tsan_init"]}
MLP = harness.ROOT / "samples" / "mlp"

# By default kernels run under the thread sanitizer in the fixtures' programs alone.
RUNTIME_TESTS = {"asan": ["runtime_tests", "kernel_tests"], "tsan": ["runtime_tests", *harness.FULL * ["kernel_tests"]]}

# Ranks as threads of one process: collectives, chunks on two streams, a loop around a collective, a pipeline.
THREADED = ["mlp_column_row", "far_overlap", "loop_all_reduce", "two_places", "vocabulary_ragged"]

# Random graphs of each kind; test/passes draws thousands without sanitizers.
RANDOM_GRAPHS = "1000"
# Tests of the compiler that sanitizers are not for. A comma would end a name.
NOT_FOR_SANITIZERS = {
    "emit: the same plan gives the same executable*": "sanitizers write paths into programs",
    "verify: twenty thousand nodes take a moment": "sanitizers take longer than a test of time allows",
}


def build(preset, targets):
    with harness.locked(harness.ROOT / "build" / f"{preset}.lock"):
        return build_alone(preset, targets)


def build_alone(preset, targets):
    cache = (harness.BUILD / "CMakeCache.txt").read_text()
    proto = next(line for line in cache.split("\n") if line.startswith("WEFT_ONNX_PROTO")).split("=", 1)[1]
    status, out, err = harness.run(["cmake", "--preset", preset, f"-DWEFT_ONNX_PROTO={proto}"], cwd=harness.ROOT)
    if status == 0:
        command = ["cmake", "--build", "--preset", preset, "-j", str(harness.JOBS), "--target", *targets]
        status, out, err = harness.run(command, cwd=harness.ROOT, timeout=3600)
    return harness.check(f"{preset}/build", status == 0, (err + out)[-400:])


@contextlib.contextmanager
def sanitizing_compiler(preset, folder):
    """While this holds, g++ is the real one with sanitizers."""
    tools, path = folder / f"{preset}_bin", os.environ["PATH"]
    tools.mkdir()
    runtime = harness.ROOT / "build" / preset / "runtime_lib" / "libweft_runtime.a"
    (tools / "g++").write_text(WRAPPER.format(compiler=shutil.which("g++"), flags=FLAGS[preset], runtime=runtime))
    (tools / "g++").chmod(0o755)
    headers = os.environ.get("WEFT_PRECOMPILED_HEADERS", "")
    # Other flags than those that the compiler knows of need precompiled headers of their own.
    os.environ.update(PATH=f"{tools}:{path}", WEFT_PRECOMPILED_HEADERS=str(folder / f"{preset}_headers"))
    yield
    os.environ.update(PATH=path, WEFT_PRECOMPILED_HEADERS=headers)


def compile_checked(preset, model, flags, program):
    """Compiles, and sees to it that the program holds the sanitizers: otherwise it would pass for nothing."""
    status, _, err = harness.weft("compile", model, *flags, "-o", program)
    held = status == 0 and all(mark in program.read_bytes() for mark in MARKS[preset])
    return harness.check(f"{preset}/programs/{program.name} is instrumented", held, f"exit {status}: {err[-300:]}")


def check_programs(folder):
    compile_checked("asan", MLP / "mlp.onnxtxt", [], folder / "mlp")
    verify_fixtures(fixtures_of("asan"), "asan/fixture")


def outputs_of(program, folder, *flags):
    """A program's outputs for random inputs, by file name; None and a failure if it fails."""
    status, _, err = harness.run([program, "--random-inputs", "5", "--iterations", "3", "--output-dir", folder, *flags])
    if not harness.check(f"tsan/programs/{folder.name}", status == 0, f"exit {status}: {err[-600:]}"):
        return None
    return {file.name: np.load(file) for file in folder.glob("*.npy")}


def check_threads(folder):
    verify_fixtures(fixtures_of("tsan"), "tsan/fixture", run_args="--ranks-as-threads")
    for name in THREADED if harness.FULL else THREADED[:1]:
        program = folder / f"{name}_threads"
        model = FIXTURES / f"{name}.onnxtxt"
        if not compile_checked("tsan", model, ["--schedule", model.with_suffix(".yaml")], program):
            continue
        threads = outputs_of(program, folder / f"{name} as threads", "--ranks-as-threads")
        processes = outputs_of(program, folder / f"{name} as processes")
        if threads and processes:
            same = all(np.array_equal(threads[file], processes[file]) for file in processes)
            harness.check(f"tsan/programs/{name} has the same bits", same, "threads and processes differ")


def check_teams(folder):
    """Threads of one rank: each in another trip of a loop, or at another kernel of a chain."""
    for name in ("shared_rows", "chains"):
        program, model = folder / f"{name}_team", FIXTURES / f"{name}.onnxtxt"
        if not compile_checked("tsan", model, [], program):
            continue
        alone = outputs_of(program, folder / f"{name} alone", "--threads", "1")
        together = outputs_of(program, folder / f"{name} together", "--threads", "3")
        if alone and together:
            same = all(np.array_equal(together[file], alone[file]) for file in alone)
            harness.check(f"tsan/programs/{name} has the same bits", same, "one thread and three differ")


def run_runtime_tests(preset):
    for tests in RUNTIME_TESTS[preset]:
        unit_check.run_executable(harness.ROOT / "build" / preset / tests, f"{preset}/{tests}")


def check_units():
    # The mutations of the default test: those of `full` take half an hour without sanitizers.
    os.environ.update(WEFT_RANDOM_GRAPHS=RANDOM_GRAPHS, WEFT_TEST_LABEL="slow")
    for test, why in NOT_FOR_SANITIZERS.items():
        harness.skipped(f"asan/weft_tests/{test.replace(': ', ', ')}", why)
    flags = ["--no-skipped-summary", "-tce=" + ",".join(NOT_FOR_SANITIZERS)]
    unit_check.run_executable(harness.ROOT / "build" / "asan" / "weft_tests", "asan/weft_tests", *flags)


def main():
    folder = harness.scratch("sanitized")
    if build("asan", ["weft_runtime", *RUNTIME_TESTS["asan"], *harness.FULL * ["weft_tests"]]):
        run_runtime_tests("asan")
        with sanitizing_compiler("asan", folder):
            check_programs(folder)
            if harness.FULL:
                check_units()
    if build("tsan", ["weft_runtime", *RUNTIME_TESTS["tsan"]]):
        run_runtime_tests("tsan")
        with sanitizing_compiler("tsan", folder):
            check_threads(folder)
            check_teams(folder)


if __name__ == "__main__":
    harness.need_weft()
    main()
