# test: full
"""clang-tidy over every source of the compiler and the runtime library, with the checks of .clang-tidy: about ten minutes."""

import concurrent.futures
import re
import shutil
import subprocess

import harness

FOLDERS = ("ir", "frontend", "passes", "backend", "cli", "runtime_lib")
# A flag that only GCC knows is no finding.
COMMAND = ["clang-tidy", "--quiet", "-p", harness.BUILD, "--extra-arg=-Wno-unknown-warning-option"]


def sources():
    paths = [f"{folder}/*.cpp" for folder in FOLDERS]
    listed = subprocess.run(["git", "ls-files", "-z", *paths], cwd=harness.ROOT, capture_output=True, text=True, check=True)
    return [name for name in listed.stdout.split("\0") if name]


def findings(name):
    status, out, err = harness.run([*COMMAND, harness.ROOT / name])
    found = re.findall(r"^\S+?:\d+:\d+: (?:warning|error): .*$", out, re.M)
    return [line.removeprefix(f"{harness.ROOT}/") for line in found] or ([err[-300:]] if status else [])


def main():
    if not shutil.which("clang-tidy"):
        harness.skipped("clang-tidy", "clang-tidy is not installed")
        return
    if not (harness.BUILD / "compile_commands.json").exists():
        harness.skipped("clang-tidy", f"no compile_commands.json in {harness.BUILD}")
        return
    names = sources()
    with concurrent.futures.ThreadPoolExecutor(harness.JOBS) as pool:
        for name, found in zip(names, pool.map(findings, names)):
            harness.check(name, not found, "; ".join(found[:5]))


main()
