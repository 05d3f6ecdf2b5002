# test: slow
"""Everything that runs, under sanitizers: the compiler's tests, the fixtures' programs on their ranks and the runtime
under the address and undefined-behaviour ones, the collectives with ranks as threads under the thread sanitizer.

A fixture's program is what `weft verify` builds, runs and compares with the reference evaluation: a compiler of the name
g++ stands first in PATH, adds the sanitizers, and links the runtime library that was built with them."""

import os
import shutil

import fixtures_check
import unit_check

import harness

FLAGS = "-fsanitize=address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer"
WRAPPER = """#!/bin/sh
# -s would take the names out of a report; optimising further only costs time here.
for word; do
  shift
  case $word in
    -s) continue ;;
    -O3) word=-O1 ;;
    */libweft_runtime.a) word={runtime} ;;
  esac
  set -- "$@" "$word"
done
exec {compiler} {flags} "$@"
"""
# Random graphs of each kind; test/passes draws thousands without sanitizers.
RANDOM_GRAPHS = "1000" if harness.FULL else "150"
SAMPLES = {"mlp": ["tp2", "tp2_overlap", "dp2"]}


def build(preset, targets):
    cache = (harness.BUILD / "CMakeCache.txt").read_text()
    proto = next(line for line in cache.split("\n") if line.startswith("WEFT_ONNX_PROTO")).split("=", 1)[1]
    status, out, err = harness.run(["cmake", "--preset", preset, f"-DWEFT_ONNX_PROTO={proto}"], cwd=harness.ROOT)
    if status == 0:
        command = ["cmake", "--build", "--preset", preset, "-j", str(harness.JOBS), "--target", *targets]
        status, out, err = harness.run(command, cwd=harness.ROOT, timeout=3600)
    return harness.check(f"{preset}/build", status == 0, (err + out)[-400:])


def make_compiler(folder):
    """The g++ of this folder is the real one with sanitizers."""
    folder.mkdir()
    wrapper = folder / "g++"
    runtime = harness.ROOT / "build" / "asan" / "runtime_lib" / "libweft_runtime.a"
    wrapper.write_text(WRAPPER.format(compiler=shutil.which("g++"), flags=FLAGS, runtime=runtime))
    wrapper.chmod(0o755)
    os.environ["PATH"] = f"{folder}:{os.environ['PATH']}"


def is_instrumented(folder):
    """Whether a program built this way holds the sanitizers at all: otherwise all below would pass for nothing."""
    program = folder / "mlp"
    status, _, err = harness.weft("compile", harness.ROOT / "samples" / "mlp" / "mlp.onnxtxt", "-o", program)
    found = status == 0 and b"__asan_init" in program.read_bytes() and b"__ubsan_handle" in program.read_bytes()
    return harness.check("programs/instrumented", found, f"exit {status}: {err[-300:]}")


def check_programs():
    folder = harness.scratch("sanitized")
    make_compiler(folder / "bin")
    if not is_instrumented(folder):
        return
    for model in sorted(fixtures_check.FIXTURES.glob("*.onnxtxt")):
        fixtures_check.check_fixture(model, "programs/")
    fixtures_check.check_kv_state()
    for sample, schedules in SAMPLES.items():
        home = harness.ROOT / "samples" / sample
        flags = [flag for name in schedules for flag in ("--schedule", home / f"{name}.yaml")]
        status, out, err = harness.weft("verify", home / f"{sample}.onnxtxt", *flags)
        harness.check(f"programs/{sample}", status == 0, f"exit {status}: {(err or out)[-400:]}")


def main():
    if build("asan", ["weft_runtime", "runtime_tests", "weft_tests"]):
        check_programs()
        os.environ["WEFT_RANDOM_GRAPHS"] = RANDOM_GRAPHS
        for target in ("runtime_tests", "weft_tests"):
            unit_check.run_executable(harness.ROOT / "build" / "asan" / target, f"asan/{target}")
    if build("tsan", ["runtime_tests"]):
        unit_check.run_executable(harness.ROOT / "build" / "tsan" / "runtime_tests", "tsan/runtime_tests")


if __name__ == "__main__":
    harness.need_weft()
    main()
