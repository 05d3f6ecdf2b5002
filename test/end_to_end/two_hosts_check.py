# test: full, alone
"""Two machines of two ranks each, as network namespaces joined by a cable of 1 Gbit/s, under each MPI. Started by
mpirun or srun, results are right, and computation hides communication. If a machine dies or falls silent in the middle
of a collective, every rank ends in time, with a line that names it."""

import json
import re
import sys
import time

import harness
from mpi_jobs import MPIS, Cable, compile_for, plain_environment, run_job, same_files
from slurm import Cluster

FOLDER = harness.scratch("two_hosts")
ROWS, WIDTH = 1024, 1024
HIDDEN = 2048  # On two cores the computation is about as long as the communication.
TIMEOUT = 3  # Seconds that a rank waits for another.
SLACK = 5  # Further seconds that ranks take to end on a busy machine.
WANTED = 0.6  # Least hidden fraction of the shorter of computation and communication.
ATTEMPTS = 6  # Other load on this machine only reduces it.
EXCHANGED = 50_000_000  # Bytes that one machine sends in three iterations.
SCHEDULE = """weft: 1
mesh: {tp: 4}
shard:
  fc_weight:   {tp: 1}
  proj_weight: {tp: 0}
transform:
  - overlap: {ops: [fc, fc_add, act, proj, proj.sum], chunks: 8, dim: 0, mechanism: streams}
"""
# Runs a rank and notes its exit code, whoever launched it: whole or, where the launcher kills this shell too, not at all.
NOTING = """#!/bin/sh
trap : TERM
"$@"
code=$?
note="$0.${OMPI_COMM_WORLD_RANK:-${PMI_RANK:-$SLURM_PROCID}}"
echo $code > "$note.part" && mv "$note.part" "$note"
exit $code
"""


class Launcher:
    """Starts four ranks on both machines: an MPI's own launcher, or srun where there is a cluster."""

    def __init__(self, mpi, cable, cluster=None):
        self.mpi, self.cable, self.cluster = mpi, cable, cluster
        self.name = f"{mpi.name}/srun" if cluster else mpi.name

    def run(self, words, **more):
        if self.cluster:
            return self.cluster.run(4, words, self.mpi, **more)
        command = self.mpi.command(4, words, self.cable)
        return run_job(self.cable.on_first([str(word) for word in command]), **more)


def make_program(mpi, hidden):
    """The MLP of this hidden width for this MPI; None after a failure was reported."""
    model, schedule, program = (FOLDER / name for name in (f"mlp_{hidden}.onnx", "overlap.yaml", f"{mpi.name}_{hidden}"))
    schedule.write_text(SCHEDULE)
    status, _, err = harness.run([sys.executable, harness.ROOT / "test" / "models" / "mlp.py", model, "--rows", ROWS,
                                  "--width", WIDTH, "--hidden", hidden])
    if status != 0:
        raise RuntimeError(f"mlp.py failed: {err[-300:]}")
    return program if compile_for(mpi, model, schedule, program, "--arch", "native") else None


# ---- results and figures --------------------------------------------------------------------------------------------


def check_results(launcher, program):
    """Over the cable and through the memory of one machine, to the bit."""
    label, outputs = f"{launcher.name}/four-ranks", {way: FOLDER / f"{program.name}.{way}" for way in ("memory", "cable")}
    common = [program, "--random-inputs", "5"]
    status, _, err = harness.run([*common, "--output-dir", outputs["memory"]], env=plain_environment())
    if status != 0:
        return harness.failed(label, f"without a launcher: exit {status}: {err[-300:]}")
    job = launcher.run([*common, "--output-dir", outputs["cable"]])
    harness.check(label, job.code == 0 and same_files(outputs["cable"], outputs["memory"]), job.shown())


def time_overlap(launcher, program):
    """(job, computation, communication, together) in ms, each alone and together timed in turns of one run."""
    job = launcher.run([program, "--random-inputs", "5", "--warmup", "1", "--iterations", "10", "--threads", "1",
                        "--overlap", "--json"])
    told = [json.loads(line) for line in job.out.splitlines() if line.startswith("{")]
    if job.code != 0 or not told:
        return job, 0, 0, 0
    parts = told[0]["overlap"]
    return job, parts["computation_ms"], parts["communication_ms"], told[0]["latency_ms"]["median"]


def check_overlap(launcher, program):
    """The best of a few runs. Where the two are more unlike than a factor of two, another width makes them alike."""
    label, hidden_width = f"{launcher.name}/hidden", HIDDEN
    for attempt in range(1, ATTEMPTS + 1):
        job, computation, communication, together = time_overlap(launcher, program)
        if not together:
            return harness.failed(label, job.shown())
        hidden = (computation + communication - together) / min(computation, communication)
        figure = (f"computation {computation:.0f} ms, communication {communication:.0f} ms, together {together:.0f} ms: "
                  f"{100 * hidden:.0f} % of the shorter hidden, run {attempt}")
        if max(computation, communication) > 2 * min(computation, communication):
            hidden_width = max(256, round(hidden_width * communication / computation / 256) * 256)
            program = make_program(launcher.mpi, hidden_width)
        elif hidden >= WANTED or attempt == ATTEMPTS:
            return harness.measured(label, hidden >= WANTED, figure)
    harness.failed(label, f"no width makes the two alike: {figure}")


# ---- failures -------------------------------------------------------------------------------------------------------


def ranks_of(program, cable):
    """Processes of the program on both machines."""
    return [pid for space in cable.spaces for pid in cable.processes(space) if name_of(pid) == program.name[:15]]


def name_of(pid):
    try:
        with open(f"/proc/{pid}/comm") as comm:
            return comm.read().strip()
    except OSError:
        return ""


class Blow:
    """A fault of the second machine after the ranks have communicated for a while, and the time until they end."""

    def __init__(self, cable, program, act):
        self.cable, self.program, self.act = cable, program, act
        self.before, self.seconds, self.left = cable.sent(), None, []

    def __call__(self):
        for _ in range(200):
            if self.cable.sent() > self.before + EXCHANGED:
                break
            time.sleep(0.05)
        else:
            return  # they never did
        self.act()
        begin = time.monotonic()
        while (left := ranks_of(self.program, self.cable)) and time.monotonic() < begin + TIMEOUT + SLACK:
            time.sleep(0.05)
        self.seconds, self.left = time.monotonic() - begin, left


def check_failure(launcher, program, name, act):
    """All ranks end in time. Those that their launcher does not kill first end with 124 or 6, and those of the first
    machine say, each in one line at most, that they missed the second. The launcher itself may wait for it for long."""
    noting = FOLDER / "noting"
    for note in FOLDER.glob("noting.*"):
        note.unlink()
    noting.write_text(NOTING)
    noting.chmod(0o755)
    blow = Blow(launcher.cable, program, act)
    words = [noting, program, "--random-inputs", "5", "--iterations", "1000000", "--timeout", TIMEOUT]
    job = launcher.run(words, timeout=2, meanwhile=blow)
    codes = {note.suffix[1:]: note.read_text().strip() for note in FOLDER.glob("noting.*[0-9]")}
    told = [line for line in job.says() if "on alpha" in line or re.match(r"\S+: rank [01]: ", line)]
    named = 1 <= len(told) <= 2 and all("on beta" in line for line in told)
    ok = blow.seconds is not None and not blow.left and named and set(codes.values()) <= {"124", "6"}
    figure = f"{blow.seconds} s, exit codes by rank {codes}, left {blow.left}: {job.shown()}"
    harness.measured(f"{launcher.name}/{name}", ok, f"{blow.seconds:.1f} s: {told[0][:160]}" if ok else figure)
    launcher.cable.remove()
    launcher.cable.lay()


def check_mpi(mpi, cable):
    program = make_program(mpi, HIDDEN)
    if not program:
        return
    launcher, second = Launcher(mpi, cable), list(cable.spaces)[1]
    check_results(launcher, program)
    check_overlap(launcher, program)
    check_failure(launcher, program, "dead-machine", lambda: cable.kill_machine(second))
    check_failure(launcher, program, "silent-machine", cable.cut)


# ---- srun -----------------------------------------------------------------------------------------------------------


def check_srun(mpi, cable, cluster):
    program, launcher, second = FOLDER / f"{mpi.name}_{HIDDEN}", Launcher(mpi, cable, cluster), list(cable.spaces)[1]
    if not program.exists():
        return
    if not cluster.start():
        return harness.failed(f"{mpi.name}/srun", f"no cluster: {cluster.log()}")
    check_results(launcher, program)
    job = cluster.run(4, [program, "--random-inputs", "5"], machines=2)
    harness.check(f"{mpi.name}/srun/no-pmi", job.code == 6 and "srun --mpi=pmix" in job.err, job.shown())
    check_failure(launcher, program, "dead-machine", lambda: cable.kill_machine(second))


def check_local(cluster):
    """A program without a transport meets on one machine, and says what it lacks on two."""
    program, mlp = FOLDER / "local", harness.ROOT / "samples" / "mlp"
    status, _, err = harness.weft("compile", mlp / "mlp.onnxtxt", "--schedule", mlp / "tp2.yaml", "-o", program, "--quiet")
    if status != 0:
        return harness.failed("srun/local", err)
    cluster.start()
    job = cluster.run(2, [program, "--random-inputs", "5"], machines=1)
    harness.check("srun/one-machine", job.code == 0, job.shown())
    job = cluster.run(2, [program, "--random-inputs", "5"], machines=2)
    harness.check("srun/no-transport", job.code == 6 and "--transport mpi" in job.err, job.shown())


def main():
    if missing := Cable.missing():
        return harness.skipped("two-hosts", missing)
    cable = Cable(FOLDER)
    cluster, no_cluster = Cluster(cable, FOLDER / "slurm"), Cluster.missing()
    cable.lay()
    for mpi in MPIS:
        harness.skipped(mpi.name, mpi.missing()) if mpi.missing() else check_mpi(mpi, cable)
    if no_cluster:
        return harness.skipped("srun", no_cluster)
    check_local(cluster)
    for mpi in MPIS:
        harness.skipped(f"{mpi.name}/srun", mpi.missing()) if mpi.missing() else check_srun(mpi, cable, cluster)


if __name__ == "__main__":
    harness.need_weft()
    main()
