"""Builds an emitted cuda program for the CPU: the folder that `--emit source` wrote, over the emulation.

    emulate.py FOLDER EXECUTABLE
Needs the targets weft_runtime_emulated and weft_emulation of a build (WEFT_BUILD, else build/dev). The executable has
the command line of the real one; its ranks are threads.
"""

import os
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
BUILD = pathlib.Path(os.environ.get("WEFT_BUILD", ROOT / "build" / "dev"))
LIBRARIES = ("libweft_runtime_emulated.a", "libweft_emulation.a")


def libraries(build=BUILD):
    """The two archives of a build, or None where it has none."""
    found = [next(iter(build.glob(f"**/{name}")), None) for name in LIBRARIES]
    return found if all(found) else None


def sanitizer_flags(build=BUILD):
    """The build's instrumentation flags: a program must match its libraries."""
    cache = (build / "CMakeCache.txt").read_text()
    kind = next((line.split("=", 1)[1] for line in cache.split("\n") if line.startswith("CMAKE_BUILD_TYPE:")), "")
    keys = ("CMAKE_CXX_FLAGS:", f"CMAKE_CXX_FLAGS_{kind.upper()}:")
    flags = [flag for line in cache.split("\n") if line.startswith(keys) for flag in line.split("=", 1)[1].split()]
    return [flag for flag in flags if flag.startswith(("-fsanitize", "-fno-sanitize", "-g"))]


def build_program(folder, executable, build=BUILD, jobs=1, objects_before=()):
    """Returns the error text, empty if the executable was built. weights.bin and manifest.json are linked beside it.
    `objects_before` stand in place of what the archives hold under the same names."""
    folder, executable = pathlib.Path(folder).resolve(), pathlib.Path(executable).resolve()
    archives = libraries(build)
    if archives is None:
        return f"{build} has no libweft_runtime_emulated.a: build the target weft_runtime_emulated"
    runtime = folder / "runtime_lib" if (folder / "runtime_lib").exists() else ROOT / "runtime_lib"
    objects = executable.parent / f"{executable.name}.objects"
    objects.mkdir(parents=True, exist_ok=True)
    sanitizers = sanitizer_flags(build)
    # With the address sanitizer optimising takes longer than it saves in tests.
    flags = ["-std=c++20", "-Og" if any("address" in flag for flag in sanitizers) else "-O2", "-fwrapv", "-w", "-DWEFT_EMULATE",
             "-I", ROOT / "test/emulation/include", "-I", runtime / "include", *sanitizers]
    sources = [folder / "program.cpp", *sorted(folder.glob("kernels/*.cu"))]
    commands = [["g++", *flags, "-x", "c++", "-c", source, "-o", objects / f"{source.name}.o"] for source in sources]
    error = run_all(commands, jobs)
    if error:
        return error
    link = ["g++", *sanitizers, "-o", executable, *[command[-1] for command in commands], *objects_before,
            *archives, "-Wl,--wrap=main", "-rdynamic", "-pthread", "-ldl"]
    error = run_all([link], 1)
    for name in ("weights.bin", "manifest.json"):
        beside = executable.parent / name
        if (folder / name).exists() and beside.parent != folder:
            beside.unlink(missing_ok=True)
            beside.symlink_to(folder / name)
    return error


def run_all(commands, jobs):
    """Runs commands, `jobs` at a time; the first error text."""
    for first in range(0, len(commands), jobs):
        running = [subprocess.Popen([str(word) for word in command], text=True, stdout=subprocess.PIPE,
                                    stderr=subprocess.STDOUT) for command in commands[first:first + jobs]]
        outputs = [process.communicate()[0] for process in running]
        for process, output in zip(running, outputs):
            if process.returncode != 0:
                return output or f"exit {process.returncode}"
    return ""


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    sys.exit(build_program(sys.argv[1], sys.argv[2], jobs=os.cpu_count() or 1) or 0)
