"""The compiler with --target cuda over the emulation: what it builds runs on the CPU.

A folder beside the build's holds the compiler itself, the emulated runtime where the compiler looks for the real one,
and a toolkit whose nvcc and g++ (toolkit/) compile kernels as C++.
"""

import os
import pathlib
import shutil

import harness
from emulate import libraries, sanitizer_flags

TOOLKIT = pathlib.Path(__file__).resolve().parent / "toolkit"


def replace(file, source, make=shutil.copy):
    """In one step: another group may be using the file that lies there."""
    own = file.with_name(f"{file.name}.{os.getpid()}")
    make(source, own)
    own.replace(file)


class Emulated:
    """The compiler of one build, and the environment in which its toolchain is the emulation's."""

    def __init__(self, build=harness.BUILD, weft=harness.WEFT):
        self.folder = build.parent / f"{build.name}-emulated"
        self.weft = self.folder / "weft"
        binaries = self.folder / "toolkit" / "bin"
        for part in (binaries, self.folder / "toolkit" / "lib", self.folder / "runtime_lib"):
            part.mkdir(parents=True, exist_ok=True)
        runtime, emulation = libraries(build)
        replace(self.weft, weft)  # it finds its runtime from where it lies itself
        replace(self.folder / "runtime_lib" / "libweft_runtime_cuda.a", runtime)
        replace(self.folder / "toolkit" / "lib" / "libcudart_static.a", emulation)
        for tool in ("g++", "nvcc"):
            replace(binaries / tool, TOOLKIT / tool, os.symlink)
        self.environment = dict(os.environ, PATH=f"{binaries}:{os.environ['PATH']}",
                                WEFT_EMULATION_FLAGS=" ".join(sanitizer_flags(build)))

    def command(self, verb):
        return [self.weft, verb, "--target", "cuda", "--arch", "sm_90"]

    def run(self, verb, *arguments, **more):
        """(exit code, stdout, stderr)."""
        return harness.run([*self.command(verb), *arguments], env=self.environment, **more)
