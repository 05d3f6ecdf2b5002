# test: slow, long
"""Ranks of cuda programs on several machines, over the emulation: they find rank 0 and write outputs. All of them end
if one does not connect, is a stranger, dies or falls silent.

Machines are network namespaces joined by a cable (mpi_jobs.py); that needs root. Other cases run on this machine, where
`--root` makes the ranks connect as if they were on several."""

import contextlib
import filecmp
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time

import harness

sys.path[:0] = [str(harness.ROOT / "test" / folder) for folder in ("emulation", "end_to_end")]
import mpi_jobs  # noqa: E402
from emulated import Emulated  # noqa: E402

FOLDER = harness.scratch("machines")
OWN = FOLDER / "own"  # each machine has its own files there
FIXTURES = harness.ROOT / "test" / "fixtures"
MLP = harness.ROOT / "samples" / "mlp"
LAUNCHERS = (*mpi_jobs.LAUNCHERS, "WEFT_", "TORCHELASTIC_")
TIMEOUT = 3  # seconds that a rank waits for another
SLACK = 5  # what a busy machine adds
BEHIND = 3  # seconds after the time-out in which a rank that is told must end


def free_port():
    with socket.socket() as probe:
        probe.bind(("", 0))
        return probe.getsockname()[1]


class Rank:
    """A process of a job: its exit code, output, errors and seconds."""

    def __init__(self, command, rank, size, local, variables, prefix=()):
        kept = {name: value for name, value in os.environ.items() if not name.startswith(LAUNCHERS)}
        environment = {**kept, "WEFT_EMULATION_PROCESSES": "1", "WEFT_EMULATION_WORKERS": "2",
                       "WEFT_EMULATION_DEVICES": "8", "RANK": str(rank), "WORLD_SIZE": str(size),
                       "LOCAL_WORLD_SIZE": str(local), **variables}
        self.begin = time.monotonic()
        self.process = subprocess.Popen([str(word) for word in (*prefix, *command)], env=environment, text=True,
                                        stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True)
        self.reader = threading.Thread(target=self.read)
        self.reader.start()

    def read(self):
        try:
            self.out, self.err = self.process.communicate(timeout=60)
        except subprocess.TimeoutExpired:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.out, self.err = self.process.communicate()
        self.seconds = time.monotonic() - self.begin
        self.code = self.process.returncode

    def end(self):
        self.reader.join()
        return self


class Here:
    """All ranks on this machine, which the launcher calls several; rank 0 is found by --root."""

    name = "here"

    def __init__(self):
        self.root = f"localhost:{free_port()}"

    def local(self, size):
        return 1

    def prefix(self, rank):
        return ()


class OneMachine(Here):
    """All ranks on this machine, as the launcher says: they share memory."""

    name = "one machine"

    def local(self, size):
        return size


class Apart(mpi_jobs.Cable):
    """Two machines with addresses of both families and files of their own; even ranks on alpha, odd ranks on beta."""

    name = "two machines"

    def __init__(self):
        super().__init__(FOLDER)
        self.address = next(iter(self.spaces))
        self.root = f"{self.address}:29500"

    def local(self, size):
        return size // 2

    def lay(self):
        super().lay()
        for number, space in enumerate(self.spaces.values(), 1):
            self.run("ip", "-n", space, "addr", "add", f"fd77::{number}/64", "dev", self.interface, "nodad")

    def prefix(self, rank):
        address, space = list(self.spaces.items())[rank % 2]
        files = f"mount -t tmpfs none {OWN}; " if rank % 2 else ""
        script = f'hostname {self.hosts[address]}; {files}exec "$@"'
        return "ip", "netns", "exec", space, "unshare", "-u", "-m", "sh", "-c", script, "sh"

    def join(self):
        self.run("ip", "-n", self.spaces[self.address], "link", "set", self.interface, "up")


def start(where, program, arguments, size, ranks=None, variables=None, root=True, timeout=TIMEOUT):
    """The ranks of a job, or some of them."""
    words = [program, *arguments, "--timeout", timeout, *(["--root", where.root] if root else [])]
    return [Rank(words, rank, size, where.local(size), variables or {}, where.prefix(rank))
            for rank in (ranks or range(size))]


def shown(ranks):
    return "; ".join(f"exit {rank.code} after {rank.seconds:.1f} s: {rank.err[-300:]}" for rank in ranks)


def check_ends(name, ranks, code, words, seconds=TIMEOUT):
    """All end in time with this code; `words` holds what each says, or None where it is told by another."""
    for rank in ranks:
        rank.end()
    ok = all(rank.code == code and rank.seconds < seconds + BEHIND + SLACK for rank in ranks)
    for rank, word in zip(ranks, words):
        ok = ok and (word is None or word in rank.err) and len(rank.err.strip().splitlines()) <= 1
    harness.measured(name, ok, f"{max(rank.seconds for rank in ranks):.1f} s" if ok else shown(ranks))


# ---- results --------------------------------------------------------------------------------------------------------


def same_files(folder, expected):
    names = sorted(file.name for file in expected.iterdir())
    return bool(names) and not any(filecmp.cmpfiles(folder, expected, names, shallow=False)[1:])


def check_results(where, name, program, size, arguments=(), variables=None, root=True):
    """The joint outputs of the ranks are bit-equal to those of threads."""
    label = f"{where.name}/{name}"
    common = ["--random-inputs", "5", "--iterations", "4", *arguments]
    expected, outputs = FOLDER / f"{program.name}.expected", OWN / f"{program.name}.outputs"
    for folder in (expected, outputs):
        shutil.rmtree(folder, ignore_errors=True)
    status, _, err = harness.run([program, *common, "--output-dir", expected],
                                 env=dict(os.environ, WEFT_EMULATION_NCCL="1", WEFT_EMULATION_NVLINK="0"))
    if not harness.check(f"{label}/threads", status == 0, f"exit {status}: {err[-300:]}"):
        return
    ranks = start(where, program, [*common, "--output-dir", outputs, "--json"], size, variables=variables, root=root,
                  timeout=20)
    ok = all(rank.end().code == 0 and rank.err == "" for rank in ranks)
    is_told_once = ok and json.loads(ranks[0].out)["ranks"] == size and not any(rank.out for rank in ranks[1:])
    harness.check(label, ok and is_told_once and same_files(outputs, expected), shown(ranks))


def check_states(where, program):
    """States that are sliced over the ranks are gathered as well, and a run that loads them goes on."""
    label, folders = f"{where.name}/states", [FOLDER / f"state{i}" for i in range(3)]
    common = ["--random-inputs", "5"]
    for arguments in (["--save-state", folders[0]], ["--load-state", folders[0], "--save-state", folders[1]]):
        ranks = start(where, program, [*common, *arguments], 2, timeout=20)
        if not all([rank.end().code == 0 for rank in ranks]):
            return harness.failed(label, shown(ranks))
    status, _, err = harness.run([program, *common, "--iterations", "2", "--save-state", folders[2]],
                                 env=dict(os.environ, WEFT_EMULATION_NCCL="1", WEFT_EMULATION_NVLINK="0"))
    harness.check(label, status == 0 and same_files(folders[1], folders[2]), err[-300:] or "the states differ")


def check_trace(where, program, size):
    file = OWN / "trace.json"
    file.unlink(missing_ok=True)
    ranks = start(where, program, ["--random-inputs", "5", "--trace", file], size, timeout=20)
    ok = all([rank.end().code == 0 for rank in ranks])
    events = json.loads(file.read_text())["traceEvents"] if ok else []
    seen = {event["pid"] for event in events if event["ph"] == "X"}
    harness.check(f"{where.name}/trace", ok and seen == set(range(size)), f"ranks {sorted(seen)}: {shown(ranks)}")


# ---- ranks that do not come, or should not --------------------------------------------------------------------------


def stranger(address, port, stop):
    """Comes again and again: says nothing, nonsense, half a sentence, or a request for a page."""
    words = (b"", b"\0" * 5000, b"WEF", b"WEFT" + b"\xff" * 40, b"GET / HTTP/1.0\r\n\r\n", os.urandom(300))
    held, turn = [], 0
    while not stop.is_set():
        with contextlib.suppress(OSError):
            guest = socket.create_connection((address, port), timeout=1)
            guest.sendall(words[turn % len(words)])
            held.append(guest)
        turn += 1
        del held[:-20]
        time.sleep(0.002)


def check_strangers(where, program):
    stop = threading.Event()
    guest = threading.Thread(target=stranger, args=("localhost", int(where.root.rsplit(":", 1)[1]), stop))
    guest.start()
    first = start(where, program, ["--random-inputs", "5"], 2, ranks=[0], timeout=20)
    time.sleep(0.5)
    ranks = first + start(where, program, ["--random-inputs", "5"], 2, ranks=[1], timeout=20)
    ok = all([rank.end().code == 0 and not rank.err for rank in ranks])
    stop.set()
    guest.join()
    harness.check(f"{where.name}/strangers", ok, shown(ranks))


def check_absent(where, program):
    common = ["--random-inputs", "5"]
    check_ends(f"{where.name}/rank 1 does not come", start(where, program, common, 2, ranks=[0]), 124,
               ["did not come: 1"])
    check_ends(f"{where.name}/rank 0 does not come", start(where, program, common, 2, ranks=[1]), 124,
               ["waited 3 s for rank 0 at"])


def check_wrong(where, program, other):
    common = ["--random-inputs", "5"]
    ranks = start(where, program, common, 2, ranks=[0]) + start(where, other, common, 2, ranks=[1])
    check_ends(f"{where.name}/another program", ranks, 6, ["runs another program", "runs another program"], 0)
    outputs = ["--output-dir", FOLDER / "uneven"]
    ranks = start(where, program, common, 2, ranks=[0]) + start(where, program, [*common, *outputs], 2, ranks=[1])
    check_ends(f"{where.name}/other arguments", ranks, 2, ["the same --output-dir", "the same --output-dir"], 0)


def check_twice(where, program):
    common = ["--random-inputs", "5"]
    first = start(where, program, common, 4, ranks=[0, 1])
    time.sleep(0.5)
    ranks = first + start(where, program, common, 4, ranks=[1])
    said = "rank 1 has come twice"
    check_ends(f"{where.name}/a rank comes twice", ranks, 6, [said, None, said], 0)


def check_occupied(where, program):
    """Somebody else listens where rank 0 should: rank 0 and the others say so."""
    with socket.socket() as other:
        other.bind(("", 0))
        other.listen()
        port = other.getsockname()[1]
        where.root = f"127.0.0.1:{port}"
        check_ends(f"{where.name}/the port is taken", start(where, program, ["--random-inputs", "5"], 2, ranks=[0]), 6,
                   ["cannot listen at port"], 0)

        def answer():
            guest, _ = other.accept()
            guest.sendall(b"SSH-2.0-OpenSSH_9.2\r\n")
            time.sleep(0.5)
            guest.close()

        thread = threading.Thread(target=answer)
        thread.start()
        ranks = start(where, program, ["--random-inputs", "5"], 2, ranks=[1])
        check_ends(f"{where.name}/another server answers", ranks, 6, ["is not rank 0 of this program"], 0)
        thread.join()
    where.root = f"localhost:{free_port()}"


def check_addresses(where, program):
    """Names and addresses of both families; what no machine has is said at once."""
    for host in ("127.0.0.1", "[::1]", "localhost"):
        where.root = f"{host}:{free_port()}"
        check_results(where, f"by {host}", program, 2)
    port = str(free_port())
    variables = {"MASTER_ADDR": "localhost", "MASTER_PORT": port}
    check_results(where, "by MASTER_ADDR", program, 2, variables=variables, root=False)
    agent = dict(variables, TORCHELASTIC_USE_AGENT_STORE="True")
    with socket.socket() as store:
        store.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        store.bind(("", int(port)))
        store.listen()
        check_results(where, "beside torchrun's store", program, 2, variables=agent, root=False)
    slurm = {"SLURM_JOB_ID": str(os.getpid()), "SLURM_JOB_NODELIST": "localhost,n[2-4]"}
    check_results(where, "by Slurm's list", program, 2, variables=slurm, root=False)
    where.root = f"no-such-host.invalid:{port}"
    check_ends(f"{where.name}/an unknown host", start(where, program, ["--random-inputs", "5"], 2, ranks=[1]), 6,
               ["no-such-host.invalid"], 60 if not has_names() else 0)
    where.root = f"localhost:{free_port()}"


def has_names():
    """A machine without a name server answers late, and that it will try again."""
    begin = time.monotonic()
    try:
        socket.getaddrinfo("no-such-host.invalid", 1)
    except socket.gaierror as error:
        return error.errno != socket.EAI_AGAIN and time.monotonic() - begin < 2
    return True


# ---- ranks that fail ------------------------------------------------------------------------------------------------


def check_stalled(where, program, size, step):
    ranks = start(where, program, ["--random-inputs", "5", "--stall", f"1:{step}"], size)
    for rank in ranks:
        rank.end()
    ok = all(rank.code == 124 and rank.seconds < TIMEOUT + BEHIND + SLACK for rank in ranks)
    said = [rank for rank in ranks if step in rank.err]
    figure = f"{max(rank.seconds for rank in ranks):.1f} s" if ok and said else shown(ranks)
    harness.measured(f"{where.name}/a stalled rank", ok and said, figure)


def check_late(program):
    """Ranks on one machine: half of a group waits inside NCCL for the other half to make their communicator."""
    begin = time.monotonic()
    environment = dict(os.environ, WEFT_EMULATION_PROCESSES="1", WEFT_EMULATION_DEVICES="4")
    status, _, err = harness.run([program, "--random-inputs", "5", "--timeout", TIMEOUT, "--stall", "1:proj.sum"],
                                 env=environment, timeout=60)
    seconds = time.monotonic() - begin
    said = "rank 1 waits for no other, and is still in proj.sum" in err and "rank 0, step proj.sum" in err and "NCCL does not come back from making a communicator" in err
    ok = status == 124 and said and seconds < TIMEOUT + SLACK
    figure = f"{seconds:.1f} s" if ok else f"exit {status}: {err[-300:]}"
    harness.measured("a communicator that is not made", ok, figure)


def running(where, program, size):
    ranks = start(where, program, ["--random-inputs", "5", "--iterations", "1000000000"], size)
    time.sleep(2)
    return ranks


def check_killed(where, program, size, victim):
    ranks = running(where, program, size)
    os.killpg(ranks[victim].process.pid, signal.SIGKILL)
    begin = time.monotonic()
    others = [rank.end() for rank in ranks if rank is not ranks[victim]]
    seconds = time.monotonic() - begin
    ended = all(rank.code == 6 for rank in others) and seconds < BEHIND + SLACK
    # One line on each machine that is left, be it that the connection broke or that NCCL noticed.
    lines = [line for rank in others for line in rank.err.strip().splitlines()]
    harness.measured(f"{where.name}/rank {victim} is killed", ended and lines and len(lines) <= len(others),
                     f"{seconds:.1f} s: {lines[:1]}" if ended else shown(others))


def check_shared_gpu(program):
    """Two launched ranks on a machine with one GPU."""
    for where, root in ((OneMachine(), False), (Here(), True)):
        variables = {"WEFT_EMULATION_DEVICES": "1", "MASTER_PORT": str(free_port())}
        ranks = start(where, program, ["--random-inputs", "5"], 2, variables=variables, root=root)
        ok = all([rank.end().code == 6 and rank.seconds < SLACK for rank in ranks])
        said = any("is GPU 0 of this machine another rank's, too?" in rank.err for rank in ranks)
        harness.check(f"{where.name}/one GPU for two ranks", ok and said, shown(ranks))


def check_killed_beside(program, step):
    """Nobody tells that a launched rank died: those who meet it notice, or NCCL says so asynchronously."""
    where = OneMachine()
    cases = (("between steps", ["--iterations", "1000000000"], "error: "),
             ("in a collective", ["--stall", f"1:{step}"], "NCCL: a collective: remote process exited"))
    for name, more, said in cases:
        variables, arguments = {"MASTER_PORT": str(free_port())}, ["--random-inputs", "5", *more]
        ranks = start(where, program, arguments, 2, variables=variables, root=False, timeout=30)
        time.sleep(2)
        os.killpg(ranks[1].process.pid, signal.SIGKILL)
        begin = time.monotonic()
        for rank in ranks:
            rank.end()
        seconds, left = time.monotonic() - begin, ranks[0]
        ok = left.code == 6 and said in left.err and seconds < SLACK
        harness.measured(f"{where.name}/rank 1 is killed {name}", ok, f"{seconds:.1f} s" if ok else shown(ranks))


def check_stopped(where, program, size, victim):
    """A machine that does nothing any more, but whose connections stay."""
    ranks = running(where, program, size)
    os.killpg(ranks[victim].process.pid, signal.SIGSTOP)
    begin = time.monotonic()
    others = [rank.end() for rank in ranks if rank is not ranks[victim]]
    seconds = time.monotonic() - begin
    os.killpg(ranks[victim].process.pid, signal.SIGKILL)
    ranks[victim].end()
    ok = all(rank.code == 124 for rank in others) and seconds < TIMEOUT + BEHIND + SLACK
    harness.measured(f"{where.name}/rank {victim} is stopped", ok, f"{seconds:.1f} s" if ok else shown(others))


def check_cut(cable, program, size):
    """Both ends of a cable that is cut end by themselves; one that sees a neighbour end first may say so instead (6)."""
    ranks = running(cable, program, size)
    cable.cut()
    begin = time.monotonic()
    for rank in ranks:
        rank.end()
    seconds = time.monotonic() - begin
    cable.join()
    codes = {rank.code for rank in ranks}
    ok = 124 in codes <= {6, 124} and all(rank.err.strip() for rank in ranks[:2])
    ok = ok and seconds < TIMEOUT + BEHIND + SLACK
    harness.measured(f"{cable.name}/a cut cable", ok, f"{seconds:.1f} s" if ok else shown(ranks))


# ---- main -----------------------------------------------------------------------------------------------------------


MESH = """weft: 1
mesh: {dp: 2, tp: 2}
shard: {fc_weight: {tp: 1}, proj_weight: {tp: 0}, x: {dp: 0}}
"""


def build(emulated, name, model, schedule):
    program = FOLDER / name
    status, _, err = emulated.run("compile", model, "--schedule", schedule, "-o", program, "--quiet")
    if status != 0:
        raise RuntimeError(f"{name}: exit {status}: {err[-300:]}")
    return program


def first_collective(program):
    _, out, _ = harness.run([program, "--info"])
    steps = json.loads(out)["manifest"]["steps"]
    return next(step["name"] for step in steps if "kernel" not in step or step["name"].endswith(".sum"))


def check_here(mlp, mesh, places, state):
    where = Here()
    check_addresses(where, mlp)
    check_results(where, "two programs", places, 4)
    check_results(where, "slices", mesh, 4)
    check_states(where, state)
    check_strangers(where, mlp)
    check_absent(where, mlp)
    check_wrong(where, mlp, state)
    check_twice(where, places)
    check_occupied(where, mlp)
    check_killed(where, mlp, 2, 1)
    check_stalled(where, mlp, 2, first_collective(mlp))
    check_late(mesh)
    check_results(OneMachine(), "launched", mlp, 2, variables={"MASTER_PORT": str(free_port())}, root=False)
    check_shared_gpu(mlp)
    check_killed_beside(mlp, first_collective(mlp))


def check_two_machines(mlp, mesh, places, state):
    missing = Apart.missing()
    if missing:
        harness.skipped("two machines", missing)
        return
    cable = Apart()
    try:
        cable.lay()
        check_results(cable, "two programs", places, 4)
        check_results(cable, "slices", mesh, 4)
        variables = {"MASTER_ADDR": cable.address, "MASTER_PORT": "29501"}
        check_results(cable, "by MASTER_ADDR", mlp, 2, variables=variables, root=False)
        cable.root = "[fd77::1]:29502"
        check_results(cable, "by an IPv6 address", mlp, 2)
        check_states(cable, state)
        check_trace(cable, places, 4)
        check_absent(cable, mlp)
        check_stalled(cable, mlp, 2, first_collective(mlp))
        for victim in (0, 1):
            check_killed(cable, places, 4, victim)
        check_stopped(cable, mlp, 2, 1)
        check_cut(cable, places, 4)
    finally:
        cable.remove()


def main():
    OWN.mkdir()
    emulated = Emulated()
    (FOLDER / "mesh.yaml").write_text(MESH)
    programs = [build(emulated, "mlp_tp2", MLP / "mlp.onnxtxt", MLP / "tp2.yaml"),
                build(emulated, "mlp_mesh", MLP / "mlp.onnxtxt", FOLDER / "mesh.yaml"),
                *(build(emulated, name, FIXTURES / f"{name}.onnxtxt", FIXTURES / f"{name}.yaml")
                  for name in ("two_places", "kv_state"))]
    check_here(*programs)
    check_two_machines(*programs)


if __name__ == "__main__":
    harness.need_weft()
    main()
