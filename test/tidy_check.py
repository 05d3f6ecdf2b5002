# test: full
"""clang-tidy over every source of the compiler and the runtime library, with the checks of .clang-tidy: about ten minutes."""

import concurrent.futures
import json
import re
import shutil
import subprocess

import harness

FOLDERS = ("ir", "frontend", "passes", "backend", "cli", "runtime_lib")
# A flag that only GCC knows is no finding, nor are vectors in memory that are declared to have any alignment.
COMMAND = ["clang-tidy", "--quiet", "--extra-arg=-Wno-unknown-warning-option", "--extra-arg=-Wno-align-mismatch", "-p"]
GCC_ONLY = r"-Winvalid-pch|-fpch-preprocess|-include \S*cmake_pch\.hxx|-fno-tree-loop-distribute-patterns"


def mpi_headers():
    """Where mpi.h lies: what programs of `--transport mpi` are linked with is compiled with them, not in the build."""
    if not shutil.which("mpicc.openmpi"):
        return []
    _, out, _ = harness.run(["mpicc.openmpi", "--showme:incdirs"])
    return [f"--extra-arg=-I{folder}" for folder in out.split()]


def sources():
    paths = [f"{folder}/*.cpp" for folder in FOLDERS]
    listed = subprocess.run(["git", "ls-files", "-z", *paths], cwd=harness.ROOT, capture_output=True, text=True, check=True)
    return [name for name in listed.stdout.split("\0") if name]


def commands_of_single_files():
    """A folder with a command for each file, which the build compiles several of together, without GCC's precompiled
    headers: clang cannot read them, and without them a file that forgot a header does not compile. None after reporting."""
    folder = harness.scratch("tidy")
    configure = ["cmake", "-S", harness.ROOT, "-B", folder, "-G", "Ninja", "-DWEFT_TOGETHER=OFF", "-DCMAKE_BUILD_TYPE=Release"]
    for command in (configure, ["cmake", "--build", folder, "--target", "weft_onnx_proto"]):
        status, out, err = harness.run(command)
        if status != 0:
            harness.check("commands of single files", False, (out + err)[-600:])
            return None
    commands = json.loads((folder / "compile_commands.json").read_text())
    for entry in commands:
        entry["command"] = re.sub(GCC_ONLY, "", entry["command"])
    (folder / "compile_commands.json").write_text(json.dumps(commands))
    return folder


def findings(name, commands):
    status, out, err = harness.run([*COMMAND, commands, *(mpi_headers() if "/mpi/" in name else []), harness.ROOT / name])
    found = re.findall(r"^\S+?:\d+:\d+: (?:warning|error): .*$", out, re.M)
    return [line.removeprefix(f"{harness.ROOT}/") for line in found] or ([err[-300:]] if status else [])


def main():
    if not shutil.which("clang-tidy"):
        harness.skipped("clang-tidy", "clang-tidy is not installed")
        return
    commands = commands_of_single_files()
    if not commands:
        return
    names = sources()
    with concurrent.futures.ThreadPoolExecutor(harness.JOBS) as pool:
        for name, found in zip(names, pool.map(lambda name: findings(name, commands), names)):
            harness.check(name, not found, "; ".join(found[:5]))


main()
