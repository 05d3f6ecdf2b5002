# test: fast, alone
"""Ranks that die, stop or never come: the others end in time, with a message and an exit code that say so."""

import json
import os
import pathlib
import signal
import subprocess
import time

import harness

FOLDER = harness.scratch("bad_ranks")
MODEL = harness.ROOT / "samples" / "mlp" / "mlp.onnxtxt"
SCHEDULE = harness.ROOT / "samples" / "mlp" / "tp2.yaml"
LAUNCHERS = ("OMPI_", "PMI", "PMIX_", "SLURM_", "MASTER_", "WORLD_SIZE", "RANK", "LOCAL_", "WEFT_")


def clean_environment(**more):
    kept = {name: value for name, value in os.environ.items() if not name.startswith(LAUNCHERS)}
    return dict(kept, **more)


def children_of(pid):
    try:
        return [int(child) for child in pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:
        return []


def is_running(pid):
    """A zombie, which stays where nobody waits for it, does not run."""
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


def wait_for_ranks(process, count):
    for _ in range(400):
        ranks = children_of(process.pid)
        if len(ranks) == count:
            return ranks
        time.sleep(0.01)
    return []


def first_collective(program):
    """A step that both ranks meet in."""
    _, out, _ = harness.run([program, "--info"])
    steps = json.loads(out)["manifest"]["steps"]
    return next(step["name"] for step in steps if "kernel" not in step or step["name"].endswith(".sum"))


def check_killed(program, victim):
    """One rank is killed while it works; the executable ends soon, with exit 6 and the signal named."""
    process = subprocess.Popen([program, "--random-inputs", "1", "--iterations", "100000000", "--timeout", "10"],
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=clean_environment())
    ranks = wait_for_ranks(process, 2)
    if not ranks:
        process.kill()
        harness.failed(f"killed/{victim}", "the ranks did not start")
        return
    time.sleep(0.3)
    os.kill(ranks[victim], signal.SIGKILL)
    begin = time.monotonic()
    try:
        _, err = process.communicate(timeout=30)
    except subprocess.TimeoutExpired:
        process.kill()
        harness.failed(f"killed/{victim}", "still running after 30 s")
        return
    took = time.monotonic() - begin
    harness.check(f"killed/{victim}", process.returncode == 6 and "signal" in err and took < 15,
                  f"exit {process.returncode} after {took:.1f} s: {err[-300:]}")


def check_parent_killed(program):
    """Ranks do not outlive the process that started them."""
    process = subprocess.Popen([program, "--random-inputs", "1", "--iterations", "100000000"], stdout=subprocess.DEVNULL,
                               stderr=subprocess.DEVNULL, env=clean_environment())
    ranks = wait_for_ranks(process, 2)
    process.kill()
    process.wait()
    time.sleep(1)
    left = [rank for rank in ranks if is_running(rank)]
    harness.check("parent-killed", ranks and not left, f"ranks {ranks}, still there {left}")
    # A rank whose parent ended before the rank could ask to be told.
    orphan = clean_environment(WEFT_RANK="1", WEFT_SEGMENT="3", WEFT_PARENT="1")
    status, _, err = harness.run([program, "--random-inputs", "1"], env=orphan)
    harness.check("parent-killed/before its rank began", status == 6 and "rank 1 has ended" in err, f"exit {status}: {err[-300:]}")


def check_stalled(program):
    step = first_collective(program)
    status, _, err = harness.run([program, "--random-inputs", "1", "--timeout", "2", "--stall", f"1:{step}"], timeout=40,
                                 env=clean_environment())
    harness.check("stalled", status == 124 and "proj" in err, f"exit {status}: {err[-300:]}")


def check_stalled_nowhere(program):
    """A rank or step to stall in that is not there is wrong use."""
    rows = (("rank", "7:proj", "the program has 2"), ("step", "1:porj", "there are: "), ("other-step", "0:nothing", "there are: "))
    for name, where, text in rows:
        status, _, err = harness.run([program, "--random-inputs", "1", "--timeout", "5", "--stall", where], timeout=40,
                                     env=clean_environment())
        harness.check(f"stalled/no-such-{name}", status == 2 and text in err, f"exit {status}: {err[-300:]}")


def check_absent(program):
    """Rank 0 of a launcher's job, without rank 1; then rank 1 without rank 0."""
    for rank in ("0", "1"):
        job = clean_environment(RANK=rank, WORLD_SIZE="2", LOCAL_WORLD_SIZE="2", MASTER_PORT=str(20000 + os.getpid() % 10000))
        status, _, err = harness.run([program, "--random-inputs", "1", "--timeout", "2"], timeout=40, env=job)
        harness.check(f"absent/only-rank-{rank}", status == 124 and err.strip(), f"exit {status}: {err[-300:]}")


def check_together(program):
    """Ranks of one Open MPI job meet, whatever another launcher left in the environment of each."""
    ranks = []
    for rank in ("0", "1"):
        job = clean_environment(OMPI_COMM_WORLD_RANK=rank, OMPI_COMM_WORLD_SIZE="2", OMPI_COMM_WORLD_LOCAL_SIZE="2",
                                PMIX_NAMESPACE=f"prterun-{os.getpid()}@1", MASTER_PORT=f"2950{rank}", SLURM_STEP_ID=rank)
        ranks.append(subprocess.Popen([program, "--random-inputs", "1", "--timeout", "10"], stderr=subprocess.PIPE, text=True, env=job))
    errors = [rank.communicate(timeout=40)[1] for rank in ranks]
    codes = [rank.returncode for rank in ranks]
    harness.check("launcher/stray-variables", codes == [0, 0], f"exits {codes}: {errors}")


def check_launchers(program):
    step = dict(SLURM_PROCID="0", SLURM_JOB_ID="7", SLURM_STEP_ID="0")
    rows = (
        ("step-of-one-task", dict(step, SLURM_NTASKS="1"), 0),
        ("batch-script", dict(SLURM_PROCID="0", SLURM_JOB_ID="7", SLURM_NTASKS="4"), 0),
        ("step-of-three-tasks", dict(step, SLURM_NTASKS="3"), 6),
        ("half-of-a-step", dict(SLURM_NTASKS="2", SLURM_JOB_ID="7", SLURM_STEP_ID="0"), 6),
        ("half-set", dict(RANK="0"), 6),
        ("no-port", dict(RANK="0", WORLD_SIZE="2"), 6),
        ("wrong-size", dict(RANK="0", WORLD_SIZE="3", MASTER_PORT="29999"), 6),
        ("no-number", dict(RANK="zero", WORLD_SIZE="2", MASTER_PORT="29999"), 6),
        ("rank-too-large", dict(RANK="2", WORLD_SIZE="2", MASTER_PORT="29999"), 6),
        ("several-machines", dict(SLURM_PROCID="0", SLURM_NTASKS="2", SLURM_NNODES="2", SLURM_JOB_ID="7", SLURM_STEP_ID="0"), 6),
    )
    for name, variables, wanted in rows:
        status, _, err = harness.run([program, "--random-inputs", "1", "--timeout", "2"], timeout=40, env=clean_environment(**variables))
        lines = len(err.strip().splitlines())
        harness.check(f"launcher/{name}", status == wanted and lines == (wanted != 0), f"exit {status}, not {wanted}: {err[-300:]}")


def main():
    program = FOLDER / "program"
    status, out, err = harness.weft("compile", MODEL, "--schedule", SCHEDULE, "-o", program)
    if not harness.check("compile", status == 0, f"exit {status}: {(err or out)[-300:]}"):
        return
    for victim in (0, 1):
        check_killed(program, victim)
    check_parent_killed(program)
    check_stalled(program)
    check_stalled_nowhere(program)
    check_absent(program)
    check_together(program)
    check_launchers(program)


harness.need_weft()
main()
