# test: fast
"""The compiler's verbs as a user meets them: results on standard output, exit codes, an environment that lacks something."""

import json
import os
import re
import shutil
import signal
import subprocess
import time

import numpy as np

import harness

FOLDER = harness.scratch("commands")
MODEL = harness.ROOT / "samples" / "mlp" / "mlp.onnxtxt"
SCHEDULE = harness.ROOT / "samples" / "mlp" / "tp2.yaml"


def expect(name, result, wanted, *texts):
    """Checks the exit code, and that each text stands in what was printed."""
    status, out, err = result
    missing = [text for text in texts if text not in out + err]
    harness.check(name, status == wanted and not missing, f"exit {status}, not {wanted}; lacks {missing}: {(err or out)[-300:]}")


def check_inspect():
    expect("inspect", harness.weft("inspect", MODEL), 0, "float[16, 8]", "MatMul", "residual")
    status, out, _ = harness.weft("inspect", MODEL, "--json")
    harness.check("inspect/json", status == 0 and json.loads(out)["ops"] == {"Add": 3, "Gelu": 1, "MatMul": 2}, out[-300:])
    odd = FOLDER / "odd.onnxtxt"
    odd.write_text('<ir_version: 8, opset_import: ["" : 17]>\nodd (float[2] x) => (float[2] y) { a = Wibble(x)\n b = Wobble(a)\n y = Relu(b) }\n')
    expect("inspect/unsupported", harness.weft("inspect", odd), 3, "not supported", "Wibble", "Wobble")


def check_explain():
    result = harness.weft("explain", MODEL, "--schedule", SCHEDULE)
    expect("explain", result, 0, "proj.sum", "AllReduce", "fc_weight", "S(1,8)", "kernels: 3")
    status, out, _ = harness.weft("explain", MODEL, "--schedule", SCHEDULE, "--json")
    plan = json.loads(out) if status == 0 else {}
    names = [row["name"] for row in plan.get("collectives", [])]
    harness.check("explain/json", names == ["proj.sum"] and plan["bit_equal"] is False, out[-300:])
    status, out, _ = harness.weft("explain", MODEL, "--schedule", harness.ROOT / "samples" / "mlp" / "dp2.yaml", "--json")
    harness.check("explain/bit-equal", status == 0 and json.loads(out)["bit_equal"] is True, out[-300:])
    expect("explain/names", harness.weft("explain", MODEL, "--schedule", SCHEDULE, "--names"), 0, "fc_weight\n", "proj.sum\n")


def check_looking_inside():
    result = harness.weft("compile", MODEL, "--stop-after", "infer-types", "--print-ir-after", "infer-types", "--time-passes")
    expect("print-ir", result, 0, "module \"mlp\"", "MatMul(%x", "milliseconds")
    dumps = FOLDER / "dumps"
    status, _, err = harness.weft("compile", MODEL, "-o", FOLDER / "dumped", "--dump-dir", dumps, "--report", FOLDER / "report.json")
    found = sorted(path.name for path in dumps.iterdir()) if dumps.exists() else []
    harness.check("dump-dir", status == 0 and "plan.txt" in found and any("fuse-regions" in name for name in found), f"{found} {err[-200:]}")
    report = json.loads((FOLDER / "report.json").read_text()) if status == 0 else {}
    harness.check("report", report.get("ranks") == 1 and report.get("passes"), report)
    (FOLDER / "file").write_text("")
    expect("dump-dir/below-a-file", harness.weft("compile", MODEL, "-o", FOLDER / "p", "--dump-dir", FOLDER / "file" / "d"), 1, "[dump-file]")
    expect("report/full-disk", harness.weft("compile", MODEL, "-o", FOLDER / "p", "--report", "/dev/full"), 1, "[report-file]")


def check_verify():
    expect("verify/reference", harness.weft("verify", MODEL, "--schedule", SCHEDULE), 0, "ok", "tp2.yaml")
    data = FOLDER / "data"
    data.mkdir()
    expect("verify/no-data", harness.weft("verify", MODEL, "--data", data), 1, "[data-file]")
    np.save(data / "input_0.npy", np.zeros((16, 8), np.float32))
    np.save(data / "output_0.npy", np.ones((16, 8), np.float32))
    expect("verify/mismatch", harness.weft("verify", MODEL, "--data", data, "--taps"), 5, "FAIL", "no value between kernels differs")
    expect("verify/tolerance", harness.weft("verify", MODEL, "--data", data, "--tolerance", "10"), 0, "ok")
    np.save(data / "output_0.npy", np.ones((16, 9), np.float32))
    np.save(data / "output_0.npy", np.full((16, 8), np.nan, np.float32))
    expect("verify/nan", harness.weft("verify", MODEL, "--data", data), 5, "cannot be compared: at [0,0] it is ", ", expected nan")
    bad = FOLDER / "bad.yaml"
    bad.write_text("weft: 1\nmesh: {tp: 2}\nshard: {nobody: {tp: 0}}\n")
    expect("verify/one-is-refused", harness.weft("verify", MODEL, "--schedule", bad, "--schedule", SCHEDULE), 1,
           "bad.yaml: failed: refused, exit code 1", "tp2.yaml", "ok")
    np.save(data / "output_0.npy", np.ones((16, 9), np.float32))
    expect("verify/shape", harness.weft("verify", MODEL, "--data", data), 5, "expected f32[16x9]")


def check_verify_many():
    listing = FOLDER / "list.txt"
    expect("verify-many/no-list", harness.weft("verify-many", "--list", listing), 1, "[list-file]")
    listing.write_text("only a name\n")
    expect("verify-many/bad-line", harness.weft("verify-many", "--list", listing), 1, "[list-line]")
    np.save(FOLDER / "data" / "output_0.npy", np.ones((16, 8), np.float32))
    listing.write_text(f"wrong\t{MODEL}\t{FOLDER / 'data'}\nrefused\t{FOLDER / 'odd.onnxtxt'}\t{FOLDER / 'data'}\n")
    status, out, err = harness.weft("verify-many", "--list", listing)
    rows = {row["case"]: row["status"] for row in map(json.loads, out.splitlines())} if status == 0 else {}
    harness.check("verify-many", rows == {"wrong": "wrong", "refused": "refused"}, f"exit {status}: {rows} {err[-200:]}")


def check_progress():
    """A line for each file on standard error, none with --quiet; the result's line alone on standard output."""
    status, out, err = harness.weft("compile", MODEL, "-o", FOLDER / "p")
    lines = [line for line in err.splitlines() if line.startswith("weft: [")]
    ends = len(lines) >= 2 and re.fullmatch(r"weft: \[1/\d+\] compile \S+\.cpp  \d+\.\d s", lines[0]) and "] link p " in lines[-1]
    harness.check("progress", status == 0 and ends and out.count("\n") == 1, f"exit {status}: {err[-300:]}")
    status, out, err = harness.weft("compile", MODEL, "-o", FOLDER / "p", "--quiet")
    harness.check("progress/quiet", status == 0 and not err and out, f"exit {status}: {err[-300:]}")


def check_environment():
    """What the machine lacks is exit 6, a compiler that fails exit 4."""
    def compile_in(**variables):
        return harness.weft("compile", MODEL, "-o", FOLDER / "lacking", env=dict(os.environ, **variables))

    tools = FOLDER / "tools"
    tools.mkdir()
    expect("no-compiler", compile_in(PATH=str(tools)), 6, "[no-compiler]")
    expect("no-work-folder", compile_in(TMPDIR=str(FOLDER / "nowhere")), 6, "[no-work-folder]")
    alone = FOLDER / "alone" / "bin" / "weft"
    alone.parent.mkdir(parents=True)
    shutil.copy(harness.WEFT, alone)
    expect("no-runtime-library", harness.run([alone, "compile", MODEL, "-o", FOLDER / "p"]), 6, "[no-runtime-library]")
    fake = tools / "g++"
    fake.write_text("#!/bin/sh\necho 'no more memory today' >&2\nexit 1\n")
    fake.chmod(0o755)
    expect("toolchain-failed", compile_in(PATH=f"{tools}:{os.environ['PATH']}"), 4, "[toolchain-failed]", "no more memory today")
    harness.check("nothing-left", not (FOLDER / "lacking").exists(), "a failed compilation left an executable")
    expect("doctor", harness.weft("doctor", "--arch", "x86-64"), 0, "runtime library")
    expect("doctor/no-compiler", harness.weft("doctor", env=dict(os.environ, PATH="/nowhere")), 6, "missing")
    expect("mpi", harness.weft("compile", MODEL, "-o", FOLDER / "p", "--transport", "mpi", "--mpicc", "none"), 6, "[no-mpi]")
    expect("doctor/no-mpi", harness.weft("doctor", "--transport", "mpi", "--mpicc", "none"), 6, "none cannot be run")


def check_cuda_environment():
    """On any machine: what building cuda programs needs is looked for, not a GPU."""
    result = harness.weft("doctor", "--target", "cuda")
    lacks = re.search(r"^missing +(?!GPU)", result[1], re.M)
    expect("doctor/cuda", result, 6 if lacks else 0, "CUDA toolkit", "runtime library", "GPU")
    expect("cuda/source", harness.weft("compile", MODEL, "-o", FOLDER / "sources", "--target", "cuda", "--emit", "source"), 0)
    harness.check("cuda/source/kernels", list((FOLDER / "sources").rglob("*.cu")), "no .cu file was written")
    if os.path.exists("/usr/local/cuda/bin/nvcc"):
        harness.skipped("no-cuda", "/usr/local/cuda is always looked at, and has an nvcc")
        return
    # A copy elsewhere: the build's own toolkit is out of its reach.
    bare = {name: text for name, text in os.environ.items() if name != "CUDA_HOME"} | {"PATH": str(FOLDER / "nowhere")}
    alone = FOLDER / "alone" / "bin" / "weft"
    expect("doctor/no-cuda", harness.run([alone, "doctor", "--target", "cuda"], env=bare), 6, "no nvcc", "runtime library")
    expect("no-cuda", harness.run([alone, "compile", MODEL, "-o", FOLDER / "lacking", "--target", "cuda"], env=bare), 6, "[no-cuda]")
    harness.check("no-cuda/nothing-left", not (FOLDER / "lacking").exists(), "a refused compilation left a file")


def check_interrupt():
    """Ctrl-C while the C++ compiler runs: nothing is left in the temporary folder, and no process."""
    tools, temporary = FOLDER / "slow", FOLDER / "tmp"
    tools.mkdir()
    temporary.mkdir()
    (tools / "g++").write_text("#!/bin/sh\nexec sleep 31.4159\n")
    (tools / "g++").chmod(0o755)
    environment = dict(os.environ, PATH=f"{tools}:{os.environ['PATH']}", TMPDIR=str(temporary))
    process = subprocess.Popen([harness.WEFT, "compile", MODEL, "-o", FOLDER / "p"], env=environment, stdout=subprocess.DEVNULL,
                               stderr=subprocess.DEVNULL, start_new_session=True)
    for _ in range(500):
        if list(temporary.glob("*/sources/*.cpp")):
            break
        time.sleep(0.01)
    time.sleep(0.3)
    os.killpg(process.pid, signal.SIGINT)
    try:
        status = process.wait(timeout=10)
    except subprocess.TimeoutExpired:
        process.kill()
        status = "none"
    left = [path.name for path in temporary.iterdir()]
    harness.check("interrupt", status == -signal.SIGINT and not left, f"exit {status}, left {left}")


def check_ops():
    status, out, _ = harness.weft("ops", "--json")
    names = {row["name"] for row in json.loads(out)} if status == 0 else set()
    harness.check("ops/json", {"MatMul", "Softmax", "Conv"} <= names, f"{len(names)} names")
    expect("ops/markdown", harness.weft("ops", "--markdown"), 0, "| ai.onnx |", "MatMul")
    expect("version", harness.weft("--version"), 0, "weft ")
    expect("help", harness.weft("--help"), 0, "compile", "explain")
    expect("no-verb", harness.weft(), 2)
    with open("/dev/full", "w") as full:
        done = subprocess.run([harness.WEFT, "ops"], stdout=full, stderr=subprocess.PIPE, text=True, timeout=60)
    harness.check("full-disk", done.returncode == 1 and "standard output" in done.stderr, f"exit {done.returncode}: {done.stderr[-300:]}")
    expect("unknown-verb", harness.weft("complie", MODEL), 2, "unknown verb 'complie', did you mean 'compile'?")


harness.need_weft()
check_inspect()
check_explain()
check_looking_inside()
check_verify()
check_verify_many()
check_progress()
check_environment()
check_cuda_environment()
check_interrupt()
check_ops()
