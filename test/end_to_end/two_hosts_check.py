# test: full
"""Two machines of two ranks each under each MPI: network namespaces that a cable of 1 Gbit/s joins. The results are
right, computation hides communication, and a machine that dies or falls silent ends all ranks in time."""

import json
import os
import re
import signal
import sys
import time

import harness
from mpi_jobs import MPIS, Cable, compile_for, plain_environment, run_job, same_files

FOLDER = harness.scratch("two_hosts")
ROWS, WIDTH = 2048, 1024
HIDDEN = (4096, 1024)  # the computation of one of them is about as long as its communication, however busy the machine
TIMEOUT = 8
SLACK = 10  # what else ranks take to end on a busy machine
WANTED = 0.6  # of the shorter of computation and communication is hidden
SCHEDULE = """weft: 1
mesh: {tp: 4}
shard:
  fc_weight:   {tp: 1}
  proj_weight: {tp: 0}
transform:
  - overlap: {ops: [fc, fc_add, act, proj, proj.sum], chunks: 8, dim: 0, mechanism: streams}
"""


def make_program(mpi, hidden):
    model, schedule = FOLDER / "mlp.onnx", FOLDER / "overlap.yaml"
    schedule.write_text(SCHEDULE)
    status, _, err = harness.run([sys.executable, harness.ROOT / "test" / "models" / "mlp.py", model, "--rows", ROWS,
                                  "--width", WIDTH, "--hidden", hidden])
    if status != 0:
        raise RuntimeError(f"mlp.py failed: {err[-300:]}")
    program = FOLDER / f"mlp_{mpi.name}_{hidden}"
    return program if compile_for(mpi, model, schedule, program, "--arch", "native") else None


def on_cable(mpi, cable, words):
    return cable.on_first([str(word) for word in mpi.command(4, words, cable)])


def check_results(mpi, cable, program):
    label, outputs = f"{mpi.name}/four-ranks", {way: FOLDER / f"{mpi.name}.{way}" for way in ("memory", "cable")}
    common = [program, "--random-inputs", "5"]
    status, _, err = harness.run([*common, "--output-dir", outputs["memory"]], env=plain_environment())
    if status != 0:
        return harness.failed(label, f"without a launcher: exit {status}: {err[-300:]}")
    job = run_job(on_cable(mpi, cable, [*common, "--output-dir", outputs["cable"]]))
    harness.check(label, job.code == 0 and same_files(outputs["cable"], outputs["memory"]), job.shown())


def time_overlap(mpi, cable, program):
    """(job, computation, communication, together) in ms, each alone and together timed in turns of one run."""
    words = [program, "--random-inputs", "5", "--warmup", "2", "--iterations", "20", "--threads", "1", "--overlap", "--json"]
    job = run_job(on_cable(mpi, cable, words), timeout=300)
    told = [json.loads(line) for line in job.out.splitlines() if line.startswith("{")]
    if job.code != 0 or not told:
        return job, 0, 0, 0
    parts = told[0]["overlap"]
    return job, parts["computation_ms"], parts["communication_ms"], told[0]["latency_ms"]["median"]


def check_overlap(mpi, cable, programs):
    """Of the first program whose computation and communication are within a factor of two."""
    label, figure = f"{mpi.name}/hidden", ""
    for program in programs:
        job, computation, communication, together = time_overlap(mpi, cable, program)
        if not together:
            return harness.failed(label, job.shown())
        hidden = (computation + communication - together) / min(computation, communication)
        figure = (f"computation {computation:.0f} ms, communication {communication:.0f} ms, together {together:.0f} ms: "
                  f"{100 * hidden:.0f} % of the shorter hidden")
        if max(computation, communication) <= 2 * min(computation, communication):
            return harness.measured(label, hidden >= WANTED, figure)
    harness.skipped(label, f"the two are too unlike on this machine: {figure}")


def check_ends(label, job):
    """The ranks of the first machine end in time, and say in one line each whom they missed. The launcher itself may wait
    for the machine that is gone."""
    told = [line for line in job.says() if "on alpha" in line or re.match(r"\S+: rank [01]: ", line)]
    ok = job.code != 0 and 1 <= len(told) <= 2 and all("on beta" in line for line in told)
    harness.measured(label, ok, f"exit {job.code} after {job.seconds:.1f} s: {told[0][:200]}" if ok else job.shown())


def check_failures(mpi, cable, program):
    words = [program, "--random-inputs", "5", "--iterations", "1000000", "--timeout", TIMEOUT]
    _, second = cable.spaces

    def after_start(act):
        def run():
            """Once both ranks of the second machine are at work."""
            for _ in range(600):
                time.sleep(0.1)
                ranks = [pid for pid in cable.processes(second) if name_of(pid) == program.name[:15]]
                if len(ranks) == 2 and all(seconds_of(pid) > 2.5 for pid in ranks):
                    return act()
        return run

    def kill_all():
        for pid in cable.processes(second):
            if name_of(pid) == program.name[:15]:
                os.kill(pid, signal.SIGKILL)

    def left_over():
        """Ranks that did not end."""
        return [pid for space in cable.spaces for pid in cable.processes(space) if name_of(pid) == program.name[:15]]

    for name, act in (("killed-ranks", kill_all), ("dead-machine", lambda: cable.kill_machine(second)),
                      ("silent-machine", cable.cut)):
        job = run_job(on_cable(mpi, cable, words), timeout=TIMEOUT + SLACK, meanwhile=after_start(act))
        for _ in range((TIMEOUT + SLACK) * 10):
            if not left_over():
                break
            time.sleep(0.1)
        harness.check(f"{mpi.name}/{name}/no-rank-left", not left_over(), f"{left_over()} after {job.shown()}")
        if name != "killed-ranks":
            check_ends(f"{mpi.name}/{name}", job)
        cable.remove()
        cable.lay()


def name_of(pid):
    try:
        with open(f"/proc/{pid}/comm") as comm:
            return comm.read().strip()
    except OSError:
        return ""


def seconds_of(pid):
    """What a process has computed so far."""
    try:
        with open(f"/proc/{pid}/stat") as stat:
            return int(stat.read().rsplit(")", 1)[1].split()[11]) / os.sysconf("SC_CLK_TCK")
    except OSError:
        return 0


def check_mpi(mpi, cable):
    programs = [make_program(mpi, hidden) for hidden in HIDDEN]
    if not all(programs):
        return
    check_results(mpi, cable, programs[0])
    check_overlap(mpi, cable, programs)
    check_failures(mpi, cable, programs[-1])


if __name__ == "__main__":
    harness.need_weft()
    if Cable.missing():
        harness.skipped("two-hosts", Cable.missing())
        sys.exit(0)
    cable = Cable(FOLDER)
    try:
        cable.lay()
        for mpi in MPIS:
            harness.skipped(mpi.name, mpi.missing()) if mpi.missing() else check_mpi(mpi, cable)
    finally:
        cable.remove()
