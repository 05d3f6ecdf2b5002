"""The base of every check script: result lines, the compiler, scratch folders, the corpus.

A check script is a file test/**/NAME_check.py. Its first lines hold `# test: LABEL` with LABEL fast, slow or full.
It prints one line a case (PASS name, FAIL name: why, SKIP name: reason); every other line is its log.
test/run.py finds the scripts, runs them and counts the lines.
"""

import contextlib
import fcntl
import math
import os
import pathlib
import platform
import shutil
import socket
import subprocess
import sys
import tarfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
BUILD = pathlib.Path(os.environ.get("WEFT_BUILD", ROOT / "build" / "dev"))
WEFT = BUILD / "weft"
FULL = os.environ.get("WEFT_TEST_LABEL") == "full"
UPDATE_GOLDENS = os.environ.get("WEFT_UPDATE_GOLDENS") == "1"
# The cores that this process may use, which may be fewer than the machine has.
JOBS = int(os.environ.get("WEFT_JOBS", len(os.sched_getaffinity(0))))


def one_line(text):
    return " ".join(str(text).split())


def passed(name):
    print(f"PASS {name}", flush=True)


def failed(name, why):
    print(f"FAIL {name}: {one_line(why)}", flush=True)


def skipped(name, reason):
    print(f"SKIP {name}: {one_line(reason)}", flush=True)


def check(name, ok, why=""):
    """Prints PASS or FAIL and returns whether it passed."""
    if ok:
        passed(name)
    else:
        failed(name, why)
    return ok


def measured(name, ok, figure):
    """Like check, for a case that rests on a figure: either line says it."""
    print(f"{'PASS' if ok else 'FAIL'} {name}: {one_line(figure)}", flush=True)
    return ok


def scratch(name):
    """An empty folder below build/test."""
    folder = ROOT / "build" / "test" / name
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    return folder


def run(command, timeout=600, **more):
    """Runs a command and returns (exit code, stdout, stderr); a time-out is exit code 124."""
    try:
        done = subprocess.run(
            [str(part) for part in command], capture_output=True, text=True, errors="replace", timeout=timeout, **more
        )
    except subprocess.TimeoutExpired as error:
        return 124, "", f"no end after {error.timeout} s"
    return done.returncode, done.stdout, done.stderr


def weft_command(*arguments):
    """The compiler with these arguments. Programs for the host are compiled for one level of CPUs unless the arguments
    say otherwise. The default's two levels take longer, and levels_check.py tests them."""
    compiles = arguments and arguments[0] in ("compile", "verify", "verify-many", "tune")
    is_said = any(str(word).split("=")[0] in ("--arch", "--target", "-h", "--help") for word in arguments)
    level = ["--arch", "x86-64-v3"] if compiles and not is_said and platform.machine() == "x86_64" else []
    return [WEFT, *arguments, *level]


def weft(*arguments, **more):
    return run(weft_command(*arguments), **more)


def need_weft():
    """Stops the script with one SKIP line if there is no compiler to test."""
    if not WEFT.exists():
        skipped("compiler", f"{WEFT.relative_to(ROOT) if WEFT.is_relative_to(ROOT) else WEFT} is not built")
        sys.exit(0)


def make_gpt2(file, *flags):
    """Writes samples/gpt2's model with these flags of its make.py; gives the file."""
    status, _, err = run([sys.executable, ROOT / "samples" / "gpt2" / "make.py", file, *flags])
    if status != 0:
        raise RuntimeError(f"make.py failed: {err[-300:]}")
    return file


def relative_error(found, wanted):
    """The largest difference of two arrays, as a part of the largest of `wanted`; infinite where shapes differ or a NaN is
    among them, which no comparison of numbers would show."""
    if found.shape != wanted.shape:
        return math.inf
    error = float(abs(found - wanted).max() / abs(wanted).max())
    return math.inf if math.isnan(error) else error


@contextlib.contextmanager
def locked(file):
    """Groups run beside each other: what two of them make, one makes while the other waits."""
    with file.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def wait_for_server(path, process, seconds=60):
    """Until a server listens at the path, or has ended: the socket's file is there before anybody can connect."""
    end = time.monotonic() + seconds
    with socket.socket(socket.AF_UNIX) as probe:
        while probe.connect_ex(str(path)) != 0 and process.poll() is None and time.monotonic() < end:
            time.sleep(0.01)


def build(target, timeout=1200):
    """Builds what is not in the usual build: few groups need it. One result; gives whether it is built."""
    with locked(BUILD / "targets.lock"):
        status, out, err = run(["cmake", "--build", BUILD, "-j", str(JOBS), "--target", target, "--", "--quiet"], timeout)
    return check(f"{target}/is built", status == 0, (err or out)[-600:])


def corpus_folder():
    return pathlib.Path(os.environ.get("WEFT_CORPUS", ROOT.parent / "shared" / "corpus"))


def corpus_pack(pack):
    """The unpacked folder of PACK.tar.xz of the corpus, or None where the corpus does not lie on this machine."""
    archive = corpus_folder() / f"{pack}.tar.xz"
    if not archive.exists():
        return None
    target = ROOT / "build" / "corpus" / pack
    stamp = target / ".unpacked"
    target.parent.mkdir(parents=True, exist_ok=True)
    with locked(target.with_suffix(".lock")):
        if not stamp.exists():
            shutil.rmtree(target, ignore_errors=True)
            target.mkdir()
            with tarfile.open(archive) as tar:
                tar.extractall(target, filter="data") if hasattr(tarfile, "data_filter") else tar.extractall(target)
            stamp.write_text("")
    return target
