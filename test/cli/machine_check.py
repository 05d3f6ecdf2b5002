# test: slow
"""Machine files: predictions for them, what is refused, and `weft profile --machine`, whose file the other verbs read."""

import json
import pathlib
import re
import time

import harness

FOLDER = harness.scratch("machine")
MODEL = harness.ROOT / "samples" / "mlp" / "mlp.onnxtxt"
TP2 = harness.ROOT / "samples" / "mlp" / "tp2.yaml"
MACHINES = harness.ROOT / "samples" / "machines"
HOST = """machine: a host
target: host
archs: [x86-64-v3]
ranks: 2
rank: {f32: 100GOP/s, f64: 50GOP/s, f16: 100GOP/s, memory: 20GB/s, capacity: 8GB, step: 50ns, function: 50}
network:
  - {name: wire, ranks: 2, bandwidth: 1GB/s, latency: %s}
"""


def explain(*flags):
    """The predicted seconds of the MLP on two ranks, and where they are from."""
    command = ("explain", MODEL, "--schedule", TP2, *flags)
    (status, out, err), text = harness.weft(*command, "--json"), harness.weft(*command)[1]
    if not harness.check("explain " + " ".join(map(harness.one_line, map(str, flags))), status == 0, f"exit {status}: {err[-300:]}"):
        return 0, ""
    return json.loads(out)["timeline"]["seconds"], next(line for line in text.splitlines() if line.startswith("timeline, "))


def machine(name, text):
    path = FOLDER / f"{name}.yaml"
    path.write_text(text)
    return path


def check_predictions():
    usual, _ = explain()
    slow, source = explain("--machine", machine("slow", HOST % "1ms"))
    harness.check("the network counts", slow > usual + 1e-3 and "a host" in source and "wire" in source, (usual, slow, source))
    flat, source = explain("--machine", FOLDER / "slow.yaml", "--ceiling", "latency=2e-3", "--ceiling", "link=1e9")
    harness.check("a ceiling replaces it", flat > slow + 0.9e-3 and "changed by --ceiling" in source, (flat, slow, source))
    cuda, source = explain("--target", "cuda", "--machine", MACHINES / "dgx-h100.yaml")
    harness.check("NCCL", "DGX H100" in source and "NCCL" in source and cuda > 15e-6, (cuda, source))
    far, _ = explain("--target", "cuda", "--machine", MACHINES / "v100-pairs.yaml")
    harness.check("a model in a pair of V100", far > 0, far)


def check_wrong():
    cases = (("zero", (HOST % "1ms").replace("1GB/s", "0GB/s"), "machine-quantity", ":7:39"),
             ("key", HOST % "1ms" + "networks: []\n", "unknown-key", ":8:1"),
             ("ranks", (HOST % "1ms").replace("wire, ranks: 2", "wire, ranks: 3"), "machine-size", ":4:8"),
             ("nothing", "", "machine-nothing", ""))
    for name, text, wanted, position in cases:
        path = machine(name, text)
        status, _, err = harness.weft("explain", MODEL, "--schedule", TP2, "--machine", path)
        harness.check(f"wrong/{name}", status == 1 and f"[{wanted}]" in err and f"{path}{position}" in err, f"exit {status}: {err[-300:]}")
    for name, wanted, flags in (
            ("no file", "machine-file", ("--machine", FOLDER / "nowhere.yaml")),
            ("other target", "machine-target", ("--machine", MACHINES / "dgx-a100.yaml")),
            ("too few ranks", "machine-too-small", ("--target", "cuda", "--machine", MACHINES / "v100-pairs.yaml", "--mesh", "tp=8"))):
        status, _, err = harness.weft("explain", MODEL, "--schedule", TP2, *flags)
        harness.check(f"wrong/{name}", status == 1 and f"[{wanted}]" in err, f"exit {status}: {err[-300:]}")


def check_capacity():
    """A program that does not fit a rank of the machine is refused, as by a limit of the schedule. One that fits is
    not."""
    for capacity, refused in (("1KB", True), ("8GB", False)):
        path = machine(f"capacity_{capacity}", (HOST % "1ms").replace("8GB", capacity))
        for verb, flags in (("compile", ("--emit", "source", "-o", FOLDER / "fits")), ("explain", ())):
            status, _, err = harness.weft(verb, MODEL, "--schedule", TP2, "--machine", path, *flags)
            wanted = r"rank 0 needs \d+ bytes \(\d+ of its weights\), a rank of the machine has 1000 \[machine-memory\]"
            harness.check(f"{capacity}/{verb}", status == (1 if refused else 0) and bool(re.search(wanted, err)) == refused, f"exit {status}: {err[-300:]}")


def check_measuring():
    file, begin = FOLDER / "here.yaml", time.monotonic()
    status, out, err = harness.weft("profile", "--machine", "-o", file, "--ranks", "2", "--quiet", timeout=300)
    if not harness.check("measures", status == 0 and "products: f32" in out and "all-reduce: " in out, f"exit {status}: {out}{err[-300:]}"):
        return
    print(f"measured in {time.monotonic() - begin:.0f} s\n{file.read_text()}")
    text = file.read_text()
    harness.check("says how", re.search(r"# Measured 20\d\d-\d\d-\d\d by weft profile --machine on .*, 2 ranks", text), text)
    seconds, source = explain("--machine", file)
    harness.check("is read", seconds > 0 and "2 cores of " in source and "among 2 ranks" in source, source)
    for name, wanted, flags in (("a program that does not run", (1, "probe-run"), ("-o", file, "--run-args", "--no-such-flag")),
                                ("a full disk", (6, "machine-unwritable"), ("-o", "/dev/full"))):
        status, _, err = harness.weft("profile", "--machine", "--ranks", "1", "--quiet", *flags, timeout=300)
        harness.check(f"refused/{name}", status == wanted[0] and f"[{wanted[1]}]" in err, f"exit {status}: {err[-300:]}")
    slowed = FOLDER / "slowed.yaml"
    status, _, err = harness.weft("profile", "--machine", "-o", slowed, "--ranks", "2", "--run-args", "--link 500MB/s,200us", "--quiet", timeout=300)
    latency = re.search(r"latency: ([\d.]+)us", slowed.read_text()) if status == 0 else None
    harness.check("a slower link", latency and float(latency[1]) >= 200, f"exit {status}: {err[-300:]}")


def check_refused():
    for name, code, flags in (("nothing to measure", 2, ("-o", FOLDER / "x.yaml")), ("no result", 2, ("--machine",)),
                              ("both", 2, ("--machine", MODEL, "-o", FOLDER / "x.yaml")), ("ranks of a model", 2, (MODEL, "--ranks", "2"))):
        status, _, err = harness.weft("profile", *flags)
        harness.check(f"refused/{name}", status == code and "profile" in err, f"exit {status}: {err[-200:]}")
    status, _, err = harness.weft("profile", "--machine", "--target", "cuda", "-o", FOLDER / "x.yaml")
    has_gpu = pathlib.Path("/dev/nvidiactl").exists()
    wanted = (3, "[profile-machine-unsupported]") if has_gpu else (6, "there is no GPU")
    harness.check("refused/GPUs", status == wanted[0] and wanted[1] in err, f"exit {status}: {err[-200:]}")


def main():
    check_predictions()
    check_wrong()
    check_capacity()
    check_refused()
    if harness.FULL:
        check_measuring()


main()
