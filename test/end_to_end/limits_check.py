# test: slow, alone
"""Limits that a user feels: seconds and memory to compile, text that a further layer adds, equal bytes from equal inputs.

In `full` also GPT-2 small (124 M parameters) and the same with 48 layers. Seconds are the smaller of wall clock and CPU
time of all processes: what else runs on the machine lengthens the first, a second core the other.
"""

import dataclasses
import filecmp
import os
import subprocess
import threading
import time

import harness

GPT2 = harness.ROOT / "samples" / "gpt2"
FIXTURES = harness.ROOT / "test" / "fixtures"
MLP = harness.ROOT / "samples" / "mlp"
SMALL = ["--width", "64", "--heads", "4", "--vocab", "503", "--context", "64"]
DEEP = ["--layers", "213", "--width", "32", "--heads", "4", "--vocab", "103", "--context", "32"]
TOKENS = ["--dim=batch=1", "--dim=seq=128"]
FEW_TOKENS = ["--dim=batch=1", "--dim=seq=32"]

PASSES_SECONDS = 10
DEEP_NODES = 20_000
LINES_A_LAYER, COLUMNS = 70, 120
COMPILE_LIMITS = {12: (60, None), 48: (90, 8.0)}  # layers: seconds, GB


@dataclasses.dataclass
class Cost:
    status: int
    seconds: float
    gigabytes: float
    output: str

    def __str__(self):
        return f"{self.seconds:.1f} s, {self.gigabytes:.2f} GB at the peak"


def resident_bytes(pid):
    """The memory of a process and its descendants; shared pages count once for each."""
    total = 0
    try:
        with open(f"/proc/{pid}/statm") as file:
            total = int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
        with open(f"/proc/{pid}/task/{pid}/children") as file:
            children = file.read().split()
    except (OSError, IndexError):
        return total  # it has ended
    return total + sum(resident_bytes(int(child)) for child in children)


def watch_memory(pid, ended, peaks):
    while not ended.wait(0.02):
        peaks.append(resident_bytes(pid))


def cost_of(*arguments):
    """Runs weft and measures it with the compilers it starts."""
    start, ended, peaks = time.monotonic(), threading.Event(), [0]
    process = subprocess.Popen(
        [str(part) for part in harness.weft_command(*arguments)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    watcher = threading.Thread(target=watch_memory, args=(process.pid, ended, peaks))
    watcher.start()
    output = process.stdout.read()
    _, status, used = os.wait4(process.pid, 0)
    wall = time.monotonic() - start
    process.returncode = os.waitstatus_to_exitcode(status)
    ended.set()
    watcher.join()
    peak = max(max(peaks), used.ru_maxrss * 1024)  # the latter: the largest single process, exactly
    return Cost(process.returncode, min(wall, used.ru_utime + used.ru_stime), peak / 1e9, output)


def schedule_flags(name):
    return ["--schedule", GPT2 / f"{name}.yaml"] if name else []


def node_count(model):
    import onnx

    return len(onnx.load(model, load_external_data=False).graph.node)


def check_passes(folder):
    model = harness.make_gpt2(folder / "deep.onnx", *DEEP)
    nodes = node_count(model)
    for schedule in (None, "tp2", "tp2_overlap"):
        cost = cost_of("compile", model, *FEW_TOKENS, *schedule_flags(schedule), "--stop-after=fuse-regions")
        ok = cost.status == 0 and cost.seconds < PASSES_SECONDS and nodes >= DEEP_NODES
        figure = f"{nodes} nodes in {cost}, reading included; limit {PASSES_SECONDS} s"
        harness.measured(f"passes/{schedule or 'one_rank'}", ok, figure if ok else f"exit {cost.status}, {figure}: {cost.output[-200:]}")


def emit(model, flags, output):
    status, _, err = harness.weft("compile", model, *flags, "--emit", "source", "-o", output)
    if status != 0:
        raise RuntimeError(f"{model.name}: {err[-300:]}")


def emitted_lines(folder):
    """Lines of each file that was emitted for this model: code, and what stands beside it."""
    files = [f for f in folder.rglob("*") if f.is_file() and "runtime_lib" not in f.relative_to(folder).parts]
    return {f.relative_to(folder): f.read_text().split("\n") for f in files if f.name != "weights.bin"}


def added_by_a_layer(folder, schedule):
    """(lines of code, lines of the manifest, longest line of code that only the larger program has)."""
    texts = []
    for layers in (12, 13):
        place = folder / f"layers{layers}"
        place.mkdir(exist_ok=True)
        model = harness.make_gpt2(place / "gpt2.onnx", "--layers", str(layers), *SMALL)  # one name: it stands in the text
        emit(model, [*FEW_TOKENS, *schedule_flags(schedule)], place / (schedule or "one_rank"))
        texts.append(emitted_lines(place / (schedule or "one_rank")))
    code = [{path: lines for path, lines in text.items() if path.suffix != ".json"} for text in texts]
    counts = [sum(map(len, each.values())) for each in code]
    manifests = [len(lines) for text in texts for path, lines in text.items() if path.suffix == ".json"]
    known = {line for lines in code[0].values() for line in lines}
    longest = max(len(line) for lines in code[1].values() for line in lines if line not in known)
    return counts[1] - counts[0], manifests[1] - manifests[0], longest


def check_lines(folder):
    for schedule in (None, "tp2"):
        lines, listed, longest = added_by_a_layer(folder, schedule)
        figure = (f"{lines} lines of at most {longest} columns, and {listed} in manifest.json; "
                  f"limits {LINES_A_LAYER} and {COLUMNS}")
        harness.measured(f"a layer more/{schedule or 'one_rank'}", lines <= LINES_A_LAYER and longest <= COLUMNS, figure)


def differing_files(first, second):
    def files(folder):
        return {f.relative_to(folder) for f in folder.rglob("*") if f.is_file()}

    one_sided = files(first) ^ files(second)
    common = files(first) & files(second)
    return sorted(map(str, one_sided | {f for f in common if not filecmp.cmp(first / f, second / f, shallow=False)}))


def check_equal_bytes(name, model, flags, folder):
    """Sources and executable, built twice, in folders of different names and depths."""
    homes = [folder / name / "first", folder / name / "another" / "folder"]
    for home in homes:
        home.mkdir(parents=True)
        emit(model, flags, home / "source")
        status, _, err = harness.weft("compile", model, *flags, "-o", home / "program")
        if status != 0:
            harness.failed(f"equal bytes/{name}", f"exit {status}: {err[-300:]}")
            return
    different = differing_files(*homes)
    size = (homes[0] / "program").stat().st_size / 1e6
    figure = f"differ: {different}" if different else f"sources and {size:.1f} MB of executable"
    harness.measured(f"equal bytes/{name}", not different, figure)


def check_compile(folder, layers):
    seconds, gigabytes = COMPILE_LIMITS[layers]
    model = harness.make_gpt2(folder / f"gpt2_{layers}.onnx", "--layers", str(layers))
    for schedule in (None, "tp2"):
        program = folder / f"gpt2_{layers}_{schedule or 'one_rank'}"
        cost = cost_of("compile", model, *TOKENS, *schedule_flags(schedule), "-o", program)
        ok = cost.status == 0 and cost.seconds < seconds and (not gigabytes or cost.gigabytes < gigabytes)
        figure = f"{cost}; limit {seconds} s" + (f", {gigabytes} GB" if gigabytes else "")
        name = f"compile/{layers} layers/{schedule or 'one_rank'}"
        harness.measured(name, ok, figure if ok else f"exit {cost.status}, {figure}: {cost.output[-200:]}")
        program.unlink(missing_ok=True)
    return model


def main():
    folder = harness.scratch("limits")
    check_lines(folder)
    check_passes(folder)
    check_equal_bytes("mlp", MLP / "mlp.onnxtxt", ["--schedule", MLP / "tp2.yaml"], folder)
    check_equal_bytes("pipeline", FIXTURES / "two_places.onnxtxt", ["--schedule", FIXTURES / "two_places.yaml"], folder)
    if not harness.FULL:
        return
    for layers in COMPILE_LIMITS:
        model = check_compile(folder, layers)
        if layers == 12:
            check_equal_bytes("gpt2_small", model, [*TOKENS, *schedule_flags("tp2")], folder)
    harness.scratch("limits")  # gigabytes of weights


if __name__ == "__main__":
    harness.need_weft()
    main()
