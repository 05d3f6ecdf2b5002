"""A library whose threads cannot be started makes a model that says so; NULL pointers and counts of threads that make no sense
are wrong arguments. The process goes on."""

import subprocess

import harness


def outcome(words, **environment):
    done = subprocess.run([str(word) for word in words], env=environment, capture_output=True, text=True, timeout=60)
    return done.returncode, done.stdout.splitlines()


def run(case):
    library = case.out / "library"
    status, _, err = harness.weft("compile", case.folder / "model.onnx", "--dim", "batch<=4", "--emit", "library", "-o", library)
    if not harness.check(f"{case.name}/compiles", status == 0, err[-300:]):
        return
    user, failing = case.out / "user", case.out / "eagain.so"
    subprocess.run(["gcc", case.folder / "user.c", f"-I{library}/include", f"-L{library}/lib", "-lmodel",
                    f"-Wl,-rpath,{library}/lib", "-o", user], check=True)
    subprocess.run(["gcc", "-shared", "-fPIC", case.folder / "eagain.c", "-o", failing, "-ldl"], check=True)
    code, said = outcome([user, 2])
    harness.check(f"{case.name}/null pointers", code == 0 and said == ["made 1: ", "4 1 1 1 1: there is no model: it is NULL"], said)
    for first in range(1, 9):
        code, said = outcome([user, 8], FAIL_AT=str(first), LD_PRELOAD=str(failing))
        harness.check(f"{case.name}/thread {first} fails", code == 0 and "Resource temporarily unavailable" in said[0], f"{code}: {said}")
    for threads in (-5, 1000000):
        code, said = outcome([user, threads])
        harness.check(f"{case.name}/{threads} threads", code == 0 and f"{threads} threads: a number" in said[0], f"{code}: {said}")
