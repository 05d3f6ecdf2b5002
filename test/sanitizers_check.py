# test: slow
"""The runtime's tests under the address and thread sanitizers; in `full` the compiler's under the first too."""

import unit_check

import harness

TARGETS = {"asan": ["runtime_tests"], "tsan": ["runtime_tests"]}


def build(preset, targets):
    cache = (harness.BUILD / "CMakeCache.txt").read_text()
    proto = next(line for line in cache.split("\n") if line.startswith("WEFT_ONNX_PROTO")).split("=", 1)[1]
    status, out, err = harness.run(["cmake", "--preset", preset, f"-DWEFT_ONNX_PROTO={proto}"], cwd=harness.ROOT)
    if status == 0:
        command = ["cmake", "--build", "--preset", preset, "-j", str(harness.JOBS), "--target", *targets]
        status, out, err = harness.run(command, cwd=harness.ROOT, timeout=3600)
    return harness.check(f"{preset}/build", status == 0, (err + out)[-400:])


def main():
    if not (harness.ROOT / "runtime_lib" / "CMakeLists.txt").exists():
        harness.skipped("runtime_tests", "runtime_lib has no build")
        return
    for preset, targets in TARGETS.items():
        targets = targets + (["weft_tests"] if harness.FULL and preset == "asan" else [])
        if build(preset, targets):
            for target in targets:
                unit_check.run_executable(harness.ROOT / "build" / preset / target, f"{preset}/{target}")


main()
