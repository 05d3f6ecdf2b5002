"""Finds this machine's GPU, CUDA toolkit, libraries and compute-sanitizer, and builds the packed project."""

import os
import pathlib
import shutil
import site
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent


def run(command, timeout, **more):
    """(exit status, stdout, stderr); a command that does not end is exit 124."""
    try:
        done = subprocess.run([str(word) for word in command], capture_output=True, text=True, errors="replace",
                              timeout=timeout, **more)
    except subprocess.TimeoutExpired as error:
        return 124, "", f"no end after {error.timeout} s"
    except OSError as error:
        return 127, "", str(error)
    return done.returncode, done.stdout, done.stderr


def gpus():
    """One row a GPU: name, compute capability such as 9.0, driver."""
    status, out, _ = run(["nvidia-smi", "--query-gpu=name,compute_cap,driver_version", "--format=csv,noheader"], 60)
    return [[cell.strip() for cell in line.split(",")] for line in out.splitlines() if line.count(",") == 2] if status == 0 else []


def cuda_tool(name):
    """A program of the CUDA toolkit, or None."""
    places = [os.environ.get("CUDA_HOME"), os.environ.get("CUDA_PATH"), "/usr/local/cuda"]
    found = shutil.which(name)
    for place in places:
        if not found and place and (pathlib.Path(place) / "bin" / name).exists():
            found = str(pathlib.Path(place) / "bin" / name)
    return found


def python_packages():
    """Folders `nvidia` of Python's packages, which may hold cuBLAS and NCCL."""
    folders = [*sys.path, *site.getsitepackages()]
    return [path for path in dict.fromkeys(pathlib.Path(f) / "nvidia" for f in folders if f) if path.is_dir()]


def nccl_headers():
    """A folder with NCCL's device headers: the carried ones, those of a Python package, or None (cmake then looks)."""
    places = [HERE / "nccl", *(path / "nccl" / "include" for path in python_packages())]
    return next((place for place in places if (place / "nccl_device.h").exists()), None)


def environment():
    """That of the programs: where a library may lie that the loader does not know."""
    folders = [*filter(None, [os.environ.get("WEFT_CUDA_LIBRARIES")]), *map(str, python_packages())]
    toolkit = cuda_tool("nvcc")
    if toolkit:
        folders += [str(pathlib.Path(toolkit).resolve().parent.parent / name) for name in ("lib64", "lib")]
    return dict(os.environ, WEFT_CUDA_LIBRARIES=":".join(folders))


def architecture(rows):
    """The compute capability to build for: that of the first GPU, unless WEFT_GPU_ARCH names one."""
    given = os.environ.get("WEFT_GPU_ARCH")
    return given.removeprefix("sm_") if given else rows[0][1].replace(".", "") if rows else "native"


def build(arch, targets, jobs):
    """(error text, seconds): executables lie in build/ below. Without targets all are built."""
    start = time.monotonic()
    nvcc, headers = cuda_tool("nvcc"), nccl_headers()
    if nvcc is None:
        return "nvcc is neither on the PATH nor in CUDA_HOME or /usr/local/cuda", 0.0
    configure = ["cmake", "-S", HERE, "-B", HERE / "build", "-DCMAKE_BUILD_TYPE=Release", f"-DCMAKE_CUDA_ARCHITECTURES={arch}",
                 f"-DCMAKE_CUDA_COMPILER={nvcc}"]
    if headers:
        configure.append(f"-DWEFT_NCCL_INCLUDE_DIR={headers}")
    if shutil.which("ninja") and "CMAKE_GENERATOR" not in os.environ:
        configure += ["-G", "Ninja"]
    make = ["cmake", "--build", HERE / "build", "-j", jobs, *(["--target", *targets] if targets else [])]
    for name, command in (("configure", configure), ("build", make)):
        status, out, err = run(command, 1200)
        (HERE / f"{name}.log").write_text(out + err)
        if status != 0:
            return f"{name}.log ends with: {(out + err)[-1500:]}", time.monotonic() - start
    return "", time.monotonic() - start
