# test: fast
"""The compiler's verbs as a user meets them: results on standard output, exit codes, an environment that lacks something."""

import json
import os
import pathlib
import re
import resource
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
    open_model = FOLDER / "open.onnxtxt"
    open_model.write_text(
        '<ir_version: 10, opset_import: ["" : 20]>\nopen (float[a] x, float[b] y, float[8] c) => (float[a] z, int64[1,n] at)\n'
        "{ [scale] z = Mul(x, y)\n at = NonZero(c) }\n"
    )
    flags = [open_model, "--requirements", "--dim", "a<=4", "--dim", "b<=4"]
    expect("inspect/requirements", harness.weft("inspect", *flags), 0, "at  <= 8  data decides", "a = b  node 'scale' (Mul)")
    status, out, _ = harness.weft("inspect", *flags, "--json")
    harness.check("inspect/requirements, json", status == 0 and len(json.loads(out)["lengths"]) == 3, out[-300:])
    odd = FOLDER / "odd.onnxtxt"
    odd.write_text('<ir_version: 8, opset_import: ["" : 17]>\nodd (float[2] x) => (float[2] y) { a = Wibble(x)\n b = Wobble(a)\n y = Relu(b) }\n')
    expect("inspect/unsupported", harness.weft("inspect", odd), 3, "not supported", "Wibble", "Wobble")


def check_one_of_several_lengths():
    """One value of --dim stands for all values that the schedule has."""
    model, schedule = FOLDER / "lengths.onnxtxt", FOLDER / "lengths.yaml"
    model.write_text('<ir_version: 10, opset_import: ["" : 20]>\nm (float[8,seq] x) => (float[8,seq] y) { [exp] y = Exp(x) }\n')
    schedule.write_text('weft: 1\ndims: {seq: "<=1,16"}\n')
    expect("lengths/several", harness.weft("explain", model, "--schedule", schedule), 3, "dim-values-unsupported")
    for dim, shown in (("seq=16", "f32[8, 16]"), ("seq<=16", "f32[8, <=16]")):
        expect(f"lengths/{dim}", harness.weft("explain", model, "--schedule", schedule, "--dim", dim), 0, shown)


def check_explain():
    result = harness.weft("explain", MODEL, "--schedule", SCHEDULE)
    expect("explain", result, 0, "proj.sum", "AllReduce", "fc_weight", "S(1,8)", "kernels: 3")
    status, out, _ = harness.weft("explain", MODEL, "--schedule", SCHEDULE, "--json")
    plan = json.loads(out) if status == 0 else {}
    names = [row["name"] for row in plan.get("collectives", [])]
    harness.check("explain/json", names == ["proj.sum"] and plan["bit_equal"] is False, out[-300:])
    programs = plan.get("memory", [])
    peaks = {peak["memory"]: peak for peak in programs[0]["peaks"]} if programs else {}
    own, window = peaks.get("own", {}), peaks.get("window", {})
    rows = [(row["names"], row["type"], row["bytes"], row["inputs"], row["nodes"]) for row in own.get("buffers", [])]
    wanted = [(["x"], "f32[16, 8]", 512, ["x"], []), (["act"], "f32[16, 8]", 512, [], ["fc", "fc_add", "act"])]
    harness.check("explain/json memory", [program["ranks"] for program in programs] == [[0, 1]] and rows == wanted, programs)
    harness.check("explain/json peak", (own.get("step"), own.get("name"), own.get("live_bytes"), own.get("bytes")) == (1, "fc", 1024, 1024)
                  and own["other_buffers"] == 0 and own["other_bytes"] == 0, own)
    row = window["buffers"][0] if window else {}
    harness.check("explain/json in place", row.get("names") == ["proj", "proj.sum"] and (row["first"], row["last"]) == ("proj", "residual")
                  and (row["first_step"], row["last_step"]) == (2, 4), row)
    status, out, _ = harness.weft("explain", MODEL, "--schedule", harness.ROOT / "samples" / "mlp" / "dp2.yaml", "--json")
    harness.check("explain/bit-equal", status == 0 and json.loads(out)["bit_equal"] is True, out[-300:])
    expect("explain/names", harness.weft("explain", MODEL, "--schedule", SCHEDULE, "--names"), 0, "fc_weight\n", "proj.sum\n")
    image = FOLDER / "image.onnxtxt"
    image.write_text('<ir_version: 8, opset_import: ["" : 20]>\n'
                     "m (float[1,16,10,10] x) => (float[1,16,6,6] y)\n"
                     "<float[16,16,3,3] u = random(1, 0.5), float[16,16,3,3] v = random(2, 0.5)>\n"
                     "{ a = Conv(x, u)  y = Conv(a, v) }\n")
    expect("explain/transpositions", harness.weft("explain", image), 0, "transpositions inserted where storages differ: 1\n")
    status, out, err = harness.weft("explain", image, "--json")
    harness.check("explain/json transpositions", status == 0 and json.loads(out)["transpositions"] == 1, f"{out[-300:]} {err[-300:]}")


def check_looking_inside():
    result = harness.weft("compile", MODEL, "--stop-after", "infer-types", "--print-ir-after", "infer-types", "--time-passes")
    expect("print-ir", result, 0, "module \"mlp\"", "MatMul(%x", "milliseconds")
    result = harness.weft("compile", MODEL, "-o", FOLDER / "planned", "--print-plan-after", "place-weights", "--time-passes")
    expect("print-plan", result, 0, "plan mlp on 1 ranks", "segment 0", "place-buffers")
    harness.check("print-plan/one-step", "at 0 (start)" not in result[1], result[1][-300:])
    expect("print-plan/unknown", harness.weft("compile", MODEL, "-o", FOLDER / "p", "--print-plan-after", "steps"), 2,
           "write-steps", "choose-kernels", "choose-storage", "join-operands", "place-weights", "order-steps", "place-buffers")
    dumps = FOLDER / "dumps"
    status, _, err = harness.weft("compile", MODEL, "-o", FOLDER / "dumped", "--dump-dir", dumps, "--report", FOLDER / "report.json")
    found = sorted(path.name for path in dumps.iterdir()) if dumps.exists() else []
    harness.check("dump-dir", status == 0 and "plan.txt" in found and any("fuse-regions" in name for name in found), f"{found} {err[-200:]}")
    report = json.loads((FOLDER / "report.json").read_text()) if status == 0 else {}
    harness.check("report", report.get("ranks") == 1 and report.get("passes"), report)
    refused = FOLDER / "refused" / "deep"
    expect("source/refused", harness.weft("compile", MODEL, "--schedule", FOLDER / "absent.yaml", "--emit", "source", "-o", refused), 1)
    harness.check("source/refused leaves nothing", not refused.parent.exists(), "a refused compilation left a folder")
    (FOLDER / "file").write_text("")
    expect("source/below-a-file", harness.weft("compile", MODEL, "--emit", "source", "-o", FOLDER / "file" / "d"), 1, "[output-path]", "is no folder")
    expect("dump-dir/below-a-file", harness.weft("compile", MODEL, "-o", FOLDER / "p", "--dump-dir", FOLDER / "file" / "d"), 6, "[dump-unwritable]")
    expect("report/full-disk", harness.weft("compile", MODEL, "-o", FOLDER / "p", "--report", "/dev/full"), 6, "[report-unwritable]")


DROPS = """<ir_version: 10, opset_import: ["" : 20]>
m (float[8, 6] x, float[8, 6] target) => (float[8, 6] y)
<float[6, 6] w = random(1, 0.5), float ratio = {0.5}, bool training = {1}> {
  [fc] h = MatMul(x, w) [drop] y = Dropout(h, ratio, training)
}
"""


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
    drops, step = FOLDER / "drops.onnxtxt", FOLDER / "drops.yaml"
    drops.write_text(DROPS)
    step.write_text("weft: 1\ntrain: {loss: {mean_squared_error: {predictions: y, targets: target}}, optimizer: {sgd: {rate: 0.1}}}\n")
    expect("verify/a training drops values", harness.weft("verify", drops, "--schedule", step), 0, "ok")


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
    """A tool that the machine lacks is exit 6, a compiler that fails exit 4."""
    def compile_in(**variables):
        return harness.weft("compile", MODEL, "-o", FOLDER / "lacking", env=dict(os.environ, **variables))

    tools = FOLDER / "tools"
    tools.mkdir()
    expect("no-compiler", compile_in(PATH=str(tools)), 6, "[no-compiler]")
    expect("no-work-folder", compile_in(TMPDIR=str(FOLDER / "nowhere")), 6, "[no-work-folder]")
    alone = FOLDER / "alone" / "bin" / "weft"
    alone.parent.mkdir(parents=True)
    shutil.copy(harness.WEFT, alone)
    library = FOLDER / "alone" / "lib" / "libweft_runtime.a"
    header = FOLDER / "alone" / "share" / "weft" / "runtime_lib" / "include" / "weft" / "host.h"
    expect("no-runtime-library", harness.run([alone, "compile", MODEL, "-o", FOLDER / "p"]), 6, "[no-runtime-library]", f"no {library} and no {header}")
    library.parent.mkdir()
    library.write_text("")
    expect("no-runtime-headers", harness.run([alone, "compile", MODEL, "-o", FOLDER / "p"]), 6, f"installed one is no {header}")
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


def limited_to(size):
    """For a process that can write no file larger than this, as if the disk were full."""
    def apply():
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))
    return apply


def check_full_disk():
    """Files that cannot be written completely are not written at all, and old ones stay."""
    folder = FOLDER / "full"
    folder.mkdir()
    page, program = folder / "page.html", folder / "program"
    page.write_text("as it was")
    expect("full-disk/page", harness.weft("explain", MODEL, "--page", page, preexec_fn=limited_to(4096)), 6, "[page-unwritable]", "File too large")
    expect("full-disk/source", harness.weft("compile", MODEL, "--emit", "source", "-o", folder / "sources", preexec_fn=limited_to(2000)), 6,
           "[file-unwritable]", "File too large")
    expect("full-disk/link", harness.weft("compile", MODEL, "-o", program, preexec_fn=limited_to(150_000)), 4, "[toolchain-failed]", "File too large")
    left = sorted(path.name for path in folder.rglob("*") if path.is_file() and (path.parent == folder or ".part" in path.name))
    harness.check("full-disk/left", left == ["page.html"] and page.read_text() == "as it was", left)
    expect("unwritable-folder", harness.weft("compile", MODEL, "-o", "/proc/weft_program", "--quiet"), 6, "[output-unwritable]")
    silent = folder / "tools"
    silent.mkdir()
    (silent / "g++").write_text("#!/bin/sh\nkill -9 $$\n")
    (silent / "g++").chmod(0o755)
    environment = dict(os.environ, PATH=f"{silent}:{os.environ['PATH']}")
    expect("silent-toolchain", harness.weft("compile", MODEL, "-o", program, env=environment), 4, "printed nothing and ended with signal 9", "MB left")


def check_special_files():
    """Results into what is no plain file, schedules out of it."""
    expect("to-null", harness.weft("compile", MODEL, "-o", "/dev/null", "--quiet"), 0)
    harness.check("to-null/stays", not os.path.isfile("/dev/null"), "/dev/null was replaced")
    text = SCHEDULE.read_text()
    for verb, more in (("explain", []), ("verify", []), ("compile", ["-o", FOLDER / "piped"])):
        result = harness.weft(verb, MODEL, "--schedule", "/dev/stdin", *more, input=text)
        expect(f"schedule-from-pipe/{verb}", result, 0, "2 ranks" if verb == "compile" else "/dev/stdin" if verb == "verify" else "proj.sum")
    expect("schedule-from-pipe/wrong", harness.weft("explain", MODEL, "--schedule", "/dev/stdin", input="weft: 1\nmsh: {}\n"), 1, "/dev/stdin:2:1")


def check_interrupt():
    """Ctrl-C, and a termination of the compiler alone, while g++ runs: nothing is left in the temporary folder, and no process."""
    tools = FOLDER / "slow"
    tools.mkdir()
    (tools / "g++").write_text("#!/bin/sh\nsleep 31.4159 &\nwait\n")
    (tools / "g++").chmod(0o755)
    for name, number, end in (("interrupt", signal.SIGINT, os.killpg), ("terminate", signal.SIGTERM, os.kill)):
        check_signal(name, number, end, tools)
    check_killed()


def check_killed():
    """A compiler that was killed leaves its folder; the next one removes it, and no folder of one that runs."""
    temporary, tools = FOLDER / "of_killed", FOLDER / "slow"
    temporary.mkdir()
    environment = dict(os.environ, PATH=f"{tools}:{os.environ['PATH']}", TMPDIR=str(temporary))
    running, killed = [subprocess.Popen([harness.WEFT, "compile", MODEL, "-o", FOLDER / "p"], env=environment,
                                        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) for _ in range(2)]
    for _ in range(2000):
        if len(sleepers()) >= 2:
            break
        time.sleep(0.01)
    both = len(list(temporary.iterdir()))
    killed.kill()
    killed.wait()
    for path in (temporary / "weft-mine", temporary / "other"):
        path.mkdir()
    harness.weft("doctor", env=environment)
    left = sorted(path.name for path in temporary.iterdir())
    running.terminate()
    running.wait()
    for pid in sleepers():
        os.kill(int(pid), signal.SIGKILL)
    harness.check("killed/its folder goes", both == 2 and len(left) == 3 and {"weft-mine", "other"} <= set(left), f"{both}, then {left}")


def check_devices():
    """A file that has no end is refused, whatever reads it; one that is empty is read."""
    readers = (["inspect"], ["log"], ["trace"], ["solve"], ["explain", MODEL, "--profile"])
    for reader in readers:
        expect(f"no end/{reader[0]}", harness.weft(*reader, "/dev/zero", timeout=60), 1, "cannot be read")
    expect("empty device", harness.weft("log", "/dev/null"), 1, "[log-empty]")


def sleepers():
    """Processes that the slow g++ has started."""
    found = []
    for path in pathlib.Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if path.read_bytes() == b"sleep\x0031.4159\x00":
                found.append(path.parent.name)
        except OSError:
            pass  # it has ended
    return found


def check_signal(name, number, end, tools):
    temporary = FOLDER / f"tmp_{name}"
    temporary.mkdir()
    environment = dict(os.environ, PATH=f"{tools}:{os.environ['PATH']}", TMPDIR=str(temporary))
    process = subprocess.Popen([harness.WEFT, "compile", MODEL, "-o", FOLDER / "p"], env=environment, stdout=subprocess.DEVNULL,
                               stderr=subprocess.DEVNULL, start_new_session=True)
    for _ in range(2000):
        if sleepers():
            break
        time.sleep(0.01)
    end(process.pid, number)
    try:
        status = process.wait(timeout=10)
    except subprocess.TimeoutExpired:
        process.kill()
        status = "none"
    for _ in range(500):  # a killed process that waits for a core is still listed
        left = [path.name for path in temporary.iterdir()] + sleepers()
        if not left:
            break
        time.sleep(0.01)
    harness.check(name, status == -number and not left, f"exit {status}, left {left}")


def check_ops():
    status, out, _ = harness.weft("ops", "--json")
    rows = {row["name"]: row for row in json.loads(out)} if status == 0 else {}
    harness.check("ops/json", {"MatMul", "Softmax", "Conv"} <= set(rows), f"{len(rows)} names")
    wanted = {"Sin": ("types", "floats"), "StringConcat": ("targets", "host, cuda but for strings"), "MatMul": ("sharding", "by its factors")}
    said = {name: (key, rows.get(name, {}).get(key)) for name, (key, _) in wanted.items()}
    harness.check("ops/what records say", said == wanted, str(said))
    expect("ops/markdown", harness.weft("ops", "--markdown"), 0, "| ai.onnx |", "MatMul")
    expect("version", harness.weft("--version"), 0, "weft ")
    expect("help", harness.weft("--help"), 0, "compile", "explain")
    expect("no-verb", harness.weft(), 2)
    with open("/dev/full", "w") as full:
        done = subprocess.run([harness.WEFT, "ops"], stdout=full, stderr=subprocess.PIPE, text=True, timeout=60)
    harness.check("full-disk", done.returncode == 6 and "standard output" in done.stderr, f"exit {done.returncode}: {done.stderr[-300:]}")
    expect("unknown-verb", harness.weft("complie", MODEL), 2, "unknown verb 'complie', did you mean 'compile'?")


harness.need_weft()
check_inspect()
check_one_of_several_lengths()
check_explain()
check_looking_inside()
check_verify()
check_verify_many()
check_progress()
check_environment()
check_cuda_environment()
check_full_disk()
check_special_files()
check_interrupt()
check_devices()
check_ops()
