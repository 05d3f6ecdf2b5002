# test: slow
"""Programs of `--transport mpi` on one machine, under each MPI that is installed: the same bits as ranks that share
memory (what the same executable does without a launcher), and how all ranks end where one fails."""

import concurrent.futures
import dataclasses
import json
import os
import pathlib
import signal
import time

import numpy as np

import harness
from mpi_jobs import MPIS, compile_for, plain_environment, run_job, same_files

FOLDER = harness.scratch("mpi")
SAMPLES = harness.ROOT / "samples"
SMALL_GPT2 = ["--layers", "4", "--width", "64", "--heads", "4", "--vocab", "503", "--context", "64"]
TIMEOUT = 5  # seconds that a rank waits for another
SLACK = 20  # what starting a job takes on a busy machine

PLAIN = """weft: 1
mesh: {tp: 2}
shard: {w: {tp: 0}}
"""
OVERLAP = """weft: 1
mesh: {tp: 2}
shard:
  fc_weight:   {tp: 1}
  proj_weight: {tp: 0}
transform:
  - overlap: {ops: [proj, proj.sum], chunks: 4, dim: 0, mechanism: streams}
"""


@dataclasses.dataclass
class Case:
    name: str
    model: pathlib.Path
    schedule: pathlib.Path
    ranks: int
    flags: list = dataclasses.field(default_factory=list)


def written(name, text):
    path = FOLDER / name
    path.write_text(text)
    return path


def product(dtype):
    """A matrix product cut along its inner dimension: one all-reduce of this type, large enough to go in parts."""
    return written(f"product_{dtype}.onnxtxt",
                   f'<ir_version: 8, opset_import: ["" : 20]>\n'
                   f"product ({dtype}[64,32] x, {dtype}[32,96] w) => ({dtype}[64,96] y)\n{{ [mm] y = MatMul(x, w) }}\n")


def cases():
    mlp = SAMPLES / "mlp" / "mlp.onnxtxt"
    yield Case("mlp_tp2", mlp, SAMPLES / "mlp" / "tp2.yaml", 2)
    yield Case("mlp_overlap", mlp, written("overlap.yaml", OVERLAP), 2)
    for dtype in ("float16", "bfloat16"):
        yield Case(dtype, product(dtype), written("plain.yaml", PLAIN), 2)
    model = harness.make_gpt2(FOLDER / "gpt2.onnx", *([] if harness.FULL else SMALL_GPT2))
    dims = ["--dim=batch=2", "--dim=seq=16"]
    for schedule, ranks in (("tp2", 2), ("tp4", 4)) if harness.FULL else (("pipeline2", 2),):
        yield Case(f"gpt2_{schedule}", model, SAMPLES / "gpt2" / f"{schedule}.yaml", ranks, dims)


def check_results(mpi, case):
    """Over MPI and through shared memory, to the bit."""
    label, program = f"{mpi.name}/{case.name}", FOLDER / f"{mpi.name}_{case.name}"
    if not compile_for(mpi, case.model, case.schedule, program, *case.flags):
        return
    common = [program, "--random-inputs", "5", "--iterations", "2", "--json", "--timeout", "60"]
    outputs = {way: FOLDER / f"{program.name}.{way}" for way in ("memory", "mpi")}
    status, _, err = harness.run([*common, "--output-dir", outputs["memory"]], env=plain_environment())
    if status != 0:
        return harness.failed(label, f"without a launcher: exit {status}: {err[-300:]}")
    job = run_job(mpi.command(case.ranks, [*common, "--output-dir", outputs["mpi"]]), timeout=300)
    told = [json.loads(line) for line in job.out.splitlines() if line.startswith("{")]
    ok = job.code == 0 and len(told) == 1 and told[0]["ranks"] == case.ranks
    harness.check(label, ok and same_files(outputs["mpi"], outputs["memory"]),
                  job.shown() if not ok else "the outputs differ")


def check_ends(name, job, codes, *words):
    """In time, with one of these codes, and with a line of a rank that holds the words."""
    lines = job.says()
    ok = job.code in codes and job.seconds < TIMEOUT + SLACK and any(all(word in line for word in words) for line in lines)
    harness.measured(name, ok, f"exit {job.code} after {job.seconds:.1f} s" if ok else job.shown())


def check_failures(mpi):
    program = FOLDER / f"{mpi.name}_mlp_tp2"
    if not program.exists():
        return
    common = [program, "--random-inputs", "5", "--timeout", TIMEOUT]
    stalled = run_job(mpi.command(2, [*common, "--stall", "1:proj"]))
    check_ends(f"{mpi.name}/stalled", stalled, (124,), "proj", f"waited {TIMEOUT} s for messages with rank 1 on ")
    job = run_job(mpi.command(3, common))
    harness.check(f"{mpi.name}/three-ranks", job.code == 6 and "started 3 ranks" in job.err, job.shown())
    job = run_job([*mpi.command(2, [program]), "--input", "x=none.npy"])
    harness.check(f"{mpi.name}/no-input", job.code == 1, job.shown())

    job = run_job(mpi.command(2, [*common, "--link", "1GB/s"]))
    harness.check(f"{mpi.name}/link", job.code == 2 and "--link is for ranks that share memory" in job.err, job.shown())

    def kill_rank():
        for _ in range(100):
            time.sleep(0.1)
            if ranks := [pid for pid in children_of(os.getpid()) if executable_of(pid) == str(program)]:
                time.sleep(1)
                os.kill(ranks[-1], signal.SIGKILL)
                return

    job = run_job(mpi.command(2, [*common, "--iterations", "100000000"]), meanwhile=kill_rank)
    harness.measured(f"{mpi.name}/killed-rank", job.code not in (0, 70) and job.seconds < TIMEOUT + SLACK,
                     f"exit {job.code} after {job.seconds:.1f} s")
    trace = FOLDER / "trace.json"
    job = run_job(mpi.command(2, [*common, "--trace", trace]))
    events = json.loads(trace.read_text())["traceEvents"] if job.code == 0 else []
    told = {(event["pid"], event["name"]) for event in events if event.get("cat") == "communication"}
    harness.check(f"{mpi.name}/trace", told == {(0, "proj.sum"), (1, "proj.sum")}, f"{told}: {job.shown()}")


def children_of(process):
    out = []
    for status in pathlib.Path("/proc").glob("[0-9]*/stat"):
        try:
            pid, rest = status.read_text().split(" (", 1)
            parent = int(rest.rsplit(") ", 1)[1].split()[1])
        except (OSError, ValueError, IndexError):
            continue
        if parent == process:
            out += [int(pid), *children_of(int(pid))]
    return out


def executable_of(pid):
    try:
        return os.readlink(f"/proc/{pid}/exe")
    except OSError:
        return ""


def check_environments(mpi, other):
    """Half-set variables, variables without a launcher, and the launcher of another MPI."""
    program = FOLDER / f"{mpi.name}_mlp_tp2"
    if not program.exists():
        return
    words = [program, "--random-inputs", "5", "--timeout", TIMEOUT]
    slurm = {"SLURM_PROCID": "0", "SLURM_STEP_ID": "0", "SLURM_STEP_NUM_TASKS": "2", "SLURM_JOB_ID": "7",
             "SLURM_STEP_NUM_NODES": "2"}
    pmi = {"PMI_RANK": "0", "PMI_SIZE": "2"}
    for name, variables, word in (("half-set", {"OMPI_COMM_WORLD_SIZE": "2"}, "OMPI_COMM_WORLD_RANK is not"),
                                  ("half-set-slurm", {"SLURM_PROCID": "0", "SLURM_STEP_ID": "0"}, "is not"),
                                  ("bare-srun", slurm, "srun --mpi=pmix"),
                                  ("no-launcher", pmi, "start it with the launcher of that MPI")):
        job = run_job(words, **variables)
        harness.check(f"{mpi.name}/{name}", job.code == 6 and word in job.err, job.shown())
    job = run_job(mpi.command(2, words), **slurm)
    harness.check(f"{mpi.name}/inside-slurm", job.code == 0, job.shown())
    if other:
        job = run_job(other.command(2, words))
        harness.check(f"{mpi.name}/launcher-of-{other.name}",
                      job.code != 0 and "start it with the launcher of that MPI" in job.err, job.shown())


def check_levels(mpi):
    """Ranks whose kernels are for different CPUs would have different bits of what all of them hold."""
    program = FOLDER / f"{mpi.name}_levels"
    mlp = SAMPLES / "mlp"
    if not compile_for(mpi, mlp / "mlp.onnxtxt", mlp / "tp2.yaml", program, "--arch", "x86-64-v2,x86-64-v3"):
        return
    words = [program, "--random-inputs", "5", "--timeout", TIMEOUT, "--arch"]
    alike = run_job(mpi.command(2, [*words, "x86-64-v2"]))
    harness.check(f"{mpi.name}/one-level", alike.code == 0, alike.shown())
    mixed = run_job([*mpi.command(1, [*words, "x86-64-v2"]), ":", "-n", "1", *words, "x86-64-v3"])
    said = "rank 1 runs its kernels for other CPUs than rank 0 (--arch)"
    harness.check(f"{mpi.name}/two-levels", mixed.code == 6 and said in mixed.err, mixed.shown())
    flags = run_job([*mpi.command(1, [*words, "x86-64-v2", "--output-dir", FOLDER / "one"]), ":", "-n", "1", *words, "x86-64-v2"])
    harness.check(f"{mpi.name}/other-flags", flags.code == 2 and "give all ranks the same --output-dir" in flags.err, flags.shown())


def check_inputs(mpi):
    """Ranks on machines that hold different files under one name."""
    program = FOLDER / f"{mpi.name}_mlp_tp2"
    if not program.exists():
        return
    _, out, _ = harness.run([program, "--info"])
    port = json.loads(out)["inputs"][0]
    values = np.arange(np.prod(port["shape"])).reshape(port["shape"]).astype(np.float32)
    for name, add in (("here", 0), ("there", 1)):
        np.save(FOLDER / f"{name}.npy", values + add)
    words = [[program, "--input", f"{port['name']}={FOLDER / name}.npy", "--timeout", TIMEOUT] for name in ("here", "there")]
    job = run_job([*mpi.command(1, words[0]), ":", "-n", "1", *words[1]])
    said = f"rank 1 has read another file for '{port['name']}' than rank 0"
    harness.check(f"{mpi.name}/other-inputs", job.code == 1 and said in job.err, job.shown())


def check_refusals():
    """A kernel that reads other ranks' memory, and a device target."""
    mlp = SAMPLES / "mlp" / "mlp.onnxtxt"
    fused = ["--schedule", SAMPLES / "mlp" / "tp2_overlap.yaml"]
    for name, flags, words in (("fused", fused, ("step 'far'", "[mpi-fused-unsupported]")),
                               ("cuda", ["--target", "cuda"], ("[mpi-unsupported]",))):
        status, _, err = harness.weft("compile", mlp, "-o", FOLDER / "refused", "--transport", "mpi", *flags)
        harness.check(f"refused/{name}", status == 3 and all(word in err for word in words), f"exit {status}: {err[-300:]}")
    status, _, err = harness.weft("compile", mlp, "-o", FOLDER / "refused", "--transport", "mpi", "--mpicc", "none",
                                  "--schedule", SAMPLES / "mlp" / "tp2.yaml")
    harness.check("refused/no-mpi", status == 6 and "[no-mpi]" in err, f"exit {status}: {err[-300:]}")


def check_sources(mpi):
    """Emitted sources build by themselves, for the MPI of --mpicc, and give what the executable gave."""
    folder, build, label = FOLDER / f"{mpi.name}_sources", FOLDER / f"{mpi.name}_build", f"{mpi.name}/sources"
    for command in ([harness.WEFT, "compile", SAMPLES / "mlp" / "mlp.onnxtxt", "--schedule", SAMPLES / "mlp" / "tp2.yaml",
                     "--emit", "source", "-o", folder, "--transport", "mpi", "--mpicc", mpi.mpicc, "--quiet"],
                    ["cmake", "-S", folder, "-B", build, "-G", "Ninja"], ["cmake", "--build", build]):
        status, out, err = harness.run(command)
        if status != 0:
            return harness.failed(label, f"{command[:2]}: {(err or out)[-400:]}")
    outputs = FOLDER / f"{mpi.name}_sources.mpi"
    job = run_job(mpi.command(2, [build / "mlp", "--random-inputs", "5", "--timeout", "60", "--output-dir", outputs]))
    same = job.code == 0 and same_files(outputs, FOLDER / f"{mpi.name}_mlp_tp2.memory")
    harness.check(label, same, job.shown() if job.code else "the outputs differ")


if __name__ == "__main__":
    harness.need_weft()
    installed = [mpi for mpi in MPIS if not mpi.missing()]
    for mpi in MPIS:
        if mpi not in installed:
            harness.skipped(mpi.name, mpi.missing())
    check_refusals()
    table = list(cases())
    for mpi in installed:
        with concurrent.futures.ThreadPoolExecutor(harness.JOBS) as pool:
            # A program computes the same under every MPI, so only the first runs all cases.
            shown = table if harness.FULL or mpi is installed[0] else table[:1]
            list(pool.map(lambda case: check_results(mpi, case), shown))
        if harness.FULL:
            check_sources(mpi)
        if harness.FULL or mpi is installed[0]:
            check_levels(mpi)
        check_inputs(mpi)
        check_failures(mpi)
        check_environments(mpi, next((other for other in installed if other is not mpi), None))
    harness.scratch("mpi")  # weights
