# test: slow
"""A cuda program without a device, a library or half of a launcher's variables ends at once with exit 6 and one line.

The programs are linked with the code that opens libraries, over the emulated device; the libraries are stubs."""

import os
import re
import shutil
import subprocess
import sys
import time

import harness

sys.path[:0] = [str(harness.ROOT / "test" / folder) for folder in ("emulation", "end_to_end")]
import emulate  # noqa: E402
import mpi_jobs  # noqa: E402

FOLDER = harness.scratch("libraries")
MLP = harness.ROOT / "samples" / "mlp"
LAUNCHERS = (*mpi_jobs.LAUNCHERS, "WEFT_", "TORCHELASTIC_")
SECONDS = 1  # from the start to the end

NCCL_VERSION = 'extern "C" int ncclGetVersion(int* version) {{ *version = {}; return 0; }}\n'


def build(model_flags, name, opener):
    source = FOLDER / f"{name}.source"
    status, _, err = harness.weft("compile", MLP / "mlp.onnxtxt", *model_flags, "--target", "cuda", "--arch", "sm_90",
                                  "--emit", "source", "-o", source)
    program = FOLDER / name
    error = err if status != 0 else emulate.build_program(source, program, jobs=harness.JOBS, objects_before=[opener])
    if error:
        raise RuntimeError(f"{name}: {error[-400:]}")
    return program


def build_opener():
    """The object that opens libraries, as runtime_lib/cuda does."""
    output, runtime = FOLDER / "opened_libraries.o", harness.ROOT / "runtime_lib"
    folders = (harness.ROOT / "test" / "emulation" / "include", runtime / "include", runtime / "src", runtime / "cuda")
    words = ["g++", "-std=c++20", "-O1", "-DWEFT_EMULATE", *(word for folder in folders for word in ("-I", folder)),
             *emulate.sanitizer_flags(), "-c", harness.ROOT / "test" / "emulation" / "tests" / "opened_libraries.cpp"]
    status, out, err = harness.run([*words, "-o", output])
    if status != 0:
        raise RuntimeError((out + err)[-400:])
    return output


def stub(folder, name, text):
    """A shared library of this text in a folder of its own."""
    home = FOLDER / folder
    home.mkdir(exist_ok=True)
    source = home / "stub.cpp"
    source.write_text(text)
    subprocess.run(["g++", "-shared", "-fPIC", "-o", home / name, source], check=True)
    return home


def without_cache():
    """A command that hides the loader's list of libraries, where this machine lists them; None where it cannot."""
    listed = harness.run(["/sbin/ldconfig", "-p"])[1]
    if "libnccl.so.2" not in listed and "libcublasLt.so.13" not in listed:
        return []
    if os.geteuid() != 0 or shutil.which("unshare") is None:
        return None
    return ["unshare", "-m", "sh", "-c", 'mount --bind /dev/null /etc/ld.so.cache && exec "$@"', "sh"]


def check(name, program, words, prefix=(), arguments=(), **variables):
    kept = {key: value for key, value in os.environ.items() if not key.startswith((*LAUNCHERS, "LD_LIBRARY_PATH"))}
    environment = dict(kept, **{key: str(value) for key, value in variables.items()})
    begin = time.monotonic()
    status, _, err = harness.run([*prefix, program, "--random-inputs", "1", *arguments], env=environment, timeout=60)
    seconds = time.monotonic() - begin
    lines = err.strip().splitlines()
    ok = status == 6 and len(lines) == 1 and words in lines[0] and seconds < SECONDS
    harness.measured(name, ok, f"{seconds:.2f} s" if ok else f"exit {status} after {seconds:.2f} s: {err[-300:]}")


def check_devices(one, two):
    for name, program in (("one rank", one), ("two ranks", two)):
        check(f"no driver/{name}", program, "this machine has no CUDA driver", WEFT_EMULATION_DRIVER=0)
        check(f"old driver/{name}", program, "too old: it knows CUDA 12.4", WEFT_EMULATION_DRIVER=12040)
        check(f"no device/{name}", program, "no CUDA device", WEFT_EMULATION_DEVICES=0)
    check("fewer devices than ranks", two, "the program has 2 ranks, one GPU each, but this machine has 1")


def check_libraries(one, two):
    """Two ranks open cuBLASLt, then NCCL; one rank needs no NCCL."""
    hidden = without_cache()
    empty = FOLDER / "empty"
    empty.mkdir()
    devices = {"WEFT_EMULATION_DEVICES": 2}
    cublas = stub("cublas", "libcublasLt.so.13", functions_of("CublasLt"))
    if hidden is None:
        harness.skipped("missing libraries", "this machine lists them, and hiding its list needs root and unshare")
    else:
        for name, program in (("one rank", one), ("two ranks", two)):
            words = "libcublasLt.so.13 cannot be opened"
            check(f"no cuBLASLt/{name}", program, words, hidden, LD_LIBRARY_PATH=empty, **devices)
        check("no NCCL", two, "libnccl.so.2 cannot be opened", hidden, LD_LIBRARY_PATH=cublas, **devices)
    old = stub("old", "libnccl.so.2", NCCL_VERSION.format(21803))
    half = stub("half", "libnccl.so.2", NCCL_VERSION.format(22809))
    broken = FOLDER / "broken"
    broken.mkdir()
    (broken / "libnccl.so.2").write_text("no library")
    for name, folder, words in (
            ("old NCCL", old, "libnccl.so.2 is version 2.18.3; the program needs 2.28.9 or later"),
            ("half an NCCL", half, "ncclGetErrorString is missing in libnccl.so.2"),
            ("a broken NCCL", broken, "libnccl.so.2 cannot be opened")):
        check(f"{name}/by LD_LIBRARY_PATH", two, words, LD_LIBRARY_PATH=f"{cublas}:{folder}", **devices)
        check(f"{name}/by WEFT_CUDA_LIBRARIES", two, words, WEFT_CUDA_LIBRARIES=f"{cublas}:{folder}", **devices)
    beside = two.parent / "libnccl.so.2"
    shutil.copy(old / "libnccl.so.2", beside)
    check("old NCCL/beside the executable", two, "libnccl.so.2 is version 2.18.3", LD_LIBRARY_PATH=cublas, **devices)
    launched = dict(devices, RANK=0, WORLD_SIZE=2, LOCAL_WORLD_SIZE=2, MASTER_PORT=29500, LD_LIBRARY_PATH=cublas)
    check("old NCCL/launched", two, "libnccl.so.2 is version 2.18.3", **launched)
    apart = dict(launched, LOCAL_WORLD_SIZE=1, MASTER_ADDR="localhost")
    check("old NCCL/on several machines", two, "libnccl.so.2 is version 2.18.3", **apart)
    beside.unlink()


def functions_of(table):
    """A stub of all functions that a table of the runtime's libraries.cpp looks up; none is ever called."""
    text = (harness.ROOT / "runtime_lib" / "cuda" / "libraries.cpp").read_text()
    body = text.split(f"{table} load_", 1)[1].split("\n}", 1)[0]
    names = re.findall(r"WEFT_SYMBOL\((\w+)\)", body)
    return "".join(f'extern "C" int {name}() {{ return 0; }}\n' for name in names)


def check_launchers(two):
    """Half of a launcher's variables is an error, never rank 0."""
    apart = {"RANK": 1, "WORLD_SIZE": 2, "LOCAL_WORLD_SIZE": 1}
    rows = (
        ("RANK alone", {"RANK": 0}, "RANK is set, but WORLD_SIZE is not"),
        ("WORLD_SIZE alone", {"WORLD_SIZE": 2, "MASTER_PORT": 29500}, "WORLD_SIZE is set, but RANK is not"),
        ("no MASTER_PORT", {"RANK": 0, "WORLD_SIZE": 2}, "MASTER_PORT is not"),
        ("no MASTER_ADDR", dict(apart, MASTER_PORT=29500), "MASTER_ADDR is not"),
        ("MASTER_ADDR alone", dict(apart, MASTER_ADDR="h"), "MASTER_PORT is not"),
        ("no way to rank 0", {"OMPI_COMM_WORLD_RANK": 1, "OMPI_COMM_WORLD_SIZE": 2, "OMPI_COMM_WORLD_LOCAL_SIZE": 1},
         "give --root HOST:PORT"),
        ("Open MPI's rank alone", {"OMPI_COMM_WORLD_RANK": 0}, "OMPI_COMM_WORLD_SIZE is not"),
        ("Slurm's rank alone", {"SLURM_JOB_ID": 9, "SLURM_STEP_ID": 0, "SLURM_PROCID": 1}, "is not"),
        ("another number of ranks", {"RANK": 0, "WORLD_SIZE": 3, "LOCAL_WORLD_SIZE": 3, "MASTER_PORT": 29500},
         "the launcher started 3 ranks; the program has 2"),
    )
    whole = stub("whole", "libnccl.so.2", NCCL_VERSION.format(22809) + functions_of("Nccl").replace(
        'extern "C" int ncclGetVersion() { return 0; }\n', ""))
    libraries = {"LD_LIBRARY_PATH": f"{FOLDER / 'cublas'}:{whole}", "WEFT_EMULATION_DEVICES": 2}
    for name, variables, words in rows:
        check(f"launcher/{name}", two, words, **variables, **libraries)
    flags = ["--root", "h:1"]
    check("launcher/--root without one", two, "--root is for ranks that a launcher starts", (), flags, **libraries)


def main():
    if emulate.libraries() is None:
        harness.skipped("emulation", "weft_runtime_emulated is not built")
        return
    opener = build_opener()
    one = build([], "one", opener)
    two = build(["--schedule", MLP / "tp2.yaml"], "two", opener)
    check_devices(one, two)
    check_libraries(one, two)
    check_launchers(two)


harness.need_weft()
main()
