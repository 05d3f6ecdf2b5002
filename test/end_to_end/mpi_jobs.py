"""The MPIs that are installed, and jobs that their launchers start, here or on two machines that a cable joins."""

import atexit
import ctypes
import dataclasses
import filecmp
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

import harness

# Prefixes of variables that another launcher, or an outer job, may have left in the environment.
LAUNCHERS = ("OMPI_", "PMI", "PMIX_", "HYDRA_", "MPI_", "SLURM_", "MASTER_", "WORLD_SIZE", "RANK", "LOCAL_", "WEFT_RANK")


@dataclasses.dataclass
class Mpi:
    name: str
    mpicc: str
    mpirun: str
    packages: str
    flags: list  # For every job: more ranks than cores, without binding to cores.
    on_hosts: list  # For a job on several machines: filled in from Cable.names.
    pmi: str  # How srun tells the ranks of each other.
    variables: dict  # For ranks that srun starts on several machines, filled in likewise.

    def missing(self):
        """Why this MPI cannot be used; empty if it can."""
        absent = [tool for tool in (self.mpicc, self.mpirun) if not shutil.which(tool)]
        return f"no {' and no '.join(absent)} (Debian: apt-get install {self.packages})" if absent else ""

    def command(self, ranks, words, cable=None):
        where = [flag.format(**cable.names()) for flag in self.on_hosts] if cable else []
        return [self.mpirun, *self.flags, *where, "-n", ranks, *words]


MPIS = [
    Mpi("openmpi", "mpicc.openmpi", "mpirun.openmpi", "libopenmpi-dev openmpi-bin",
        ["--allow-run-as-root", "--oversubscribe", "--bind-to", "none"],
        ["--host", "{first}:2,{second}:2", "--map-by", "slot", "--mca", "plm_rsh_agent", "{agent}",
         "--mca", "btl_tcp_if_include", "{net}", "--mca", "oob_tcp_if_include", "{net}"],
        "pmix", {"OMPI_MCA_btl_tcp_if_include": "{net}"}),
    Mpi("mpich", "mpicc.mpich", "mpiexec.mpich", "mpich libmpich-dev", ["-bind-to", "none"],
        ["-hosts", "{first}:2,{second}:2", "-launcher", "ssh", "-launcher-exec", "{agent}", "-iface", "{interface}",
         "-genv", "UCX_NET_DEVICES", "{interface}", "-genv", "UCX_TLS", "tcp,self"],
        "pmi2", {"UCX_NET_DEVICES": "{interface}", "UCX_TLS": "tcp,self"}),
]


def plain_environment(**more):
    kept = {name: value for name, value in os.environ.items() if not name.startswith(LAUNCHERS)}
    return dict(kept, OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1", **more)


@dataclasses.dataclass
class Ended:
    code: int
    out: str
    err: str
    seconds: float

    def shown(self):
        return f"exit {self.code} after {self.seconds:.1f} s: {(self.err or self.out)[-500:]}"

    def says(self):
        """The lines of the ranks themselves, without what launchers add."""
        return [line for line in self.err.splitlines() if re.match(r"\S+: rank \d+", line)]


def end_with_parent():
    """Called in a child before its exec, so that no job survives a killed test."""
    PR_SET_PDEATHSIG = 1
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)


def run_job(command, timeout=120, meanwhile=None, **environment):
    """Runs a launcher and calls meanwhile() once it has begun. Its output goes to files: a launcher's processes on a
    disconnected machine would keep their end of a pipe open for long."""
    begin = time.monotonic()
    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as err:
        process = subprocess.Popen([str(word) for word in command], env=plain_environment(**environment),
                                   stdin=subprocess.DEVNULL, stdout=out, stderr=err, start_new_session=True,
                                   preexec_fn=end_with_parent)
        if meanwhile:
            meanwhile()
        late = ""
        try:
            process.wait(timeout)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            late = f"\nno end after {timeout} s"
        seconds = time.monotonic() - begin
        for file in (out, err):
            file.seek(0)
        return Ended(process.returncode, out.read(), err.read() + late, seconds)


def same_files(folder, expected):
    names = sorted(file.name for file in expected.iterdir())
    return bool(names) and not any(filecmp.cmpfiles(folder, expected, names, shallow=False)[1:])


def compile_for(mpi, model, schedule, program, *flags):
    """Whether the program could be compiled for this MPI; reports a failure."""
    status, _, err = harness.weft("compile", model, "--schedule", schedule, "-o", program, "--transport", "mpi",
                                  "--mpicc", mpi.mpicc, "--quiet", *flags, timeout=1200)
    return status == 0 or harness.failed(f"{mpi.name}/{pathlib.Path(program).name}/compile", f"exit {status}: {err[-400:]}")


class Cable:
    """Two machines, as network namespaces with host names of their own, joined by a cable of 1 Gbit/s."""

    interface, net, rate = "cable", "10.78.0.0/24", "1gbit"
    hosts = {"10.78.0.1": "alpha", "10.78.0.2": "beta"}

    def __init__(self, folder):
        self.spaces = {address: f"weft{os.getpid()}{host}" for address, host in self.hosts.items()}
        self.agent = folder / "agent"
        atexit.register(self.remove)
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that what is registered runs

    @staticmethod
    def missing():
        if os.geteuid() != 0:
            return "needs root, for network namespaces"
        absent = [tool for tool in ("ip", "tc", "unshare") if not shutil.which(tool)]
        if absent:
            return f"no {', '.join(absent)} (Debian: apt-get install iproute2 util-linux)"
        probe = f"weft{os.getpid()}probe"
        status, _, err = harness.run(["ip", "netns", "add", probe])
        if status != 0:
            return f"no network namespaces here: {err}"
        status, _, err = harness.run(Cable.slowed(probe, "lo"))
        remove_space(probe)
        return f"no slow links here: {err}" if status else ""

    @classmethod
    def slowed(cls, space, interface):
        """The command that gives an interface the cable's rate."""
        return ["ip", "netns", "exec", space, "tc", "qdisc", "add", "dev", interface, "root", "tbf", "rate", cls.rate,
                "burst", "256kb", "latency", "50ms"]

    def lay(self):
        self.sweep()
        first, second = self.spaces.values()
        for space in (first, second):
            self.run("ip", "netns", "add", space)
        self.run("ip", "link", "add", self.interface, "netns", first, "type", "veth", "peer", "name", self.interface,
                 "netns", second)
        for address, space in self.spaces.items():
            self.run("ip", "-n", space, "addr", "add", f"{address}/24", "dev", self.interface)
            self.run("ip", "-n", space, "link", "set", self.interface, "up")
            self.run("ip", "-n", space, "link", "set", "lo", "up")
            self.run(*self.slowed(space, self.interface))
        for space in self.spaces.values():
            self.await_up(space)
        # The script that a launcher calls as ssh: options, a host, then words for a shell.
        cases = "\n".join(f"{address}|{self.hosts[address]}) space={space} name={self.hosts[address]} ;;"
                          for address, space in self.spaces.items())
        self.agent.write_text('#!/bin/sh\nwhile :; do case "$1" in -*) shift ;; *) break ;; esac; done\n'
                              f'case "$1" in\n{cases}\nesac\nshift\n'
                              'exec ip netns exec "$space" unshare -u sh -c "hostname $name; $*"\n')
        self.agent.chmod(0o755)

    @staticmethod
    def run(*words):
        subprocess.run(words, check=True, capture_output=True)

    def await_up(self, space):
        """A new interface is up a moment after it was asked to be."""
        for _ in range(100):
            _, out, _ = harness.run(["ip", "-n", space, "-br", "link", "show", self.interface])
            if " UP " in out:
                return
            time.sleep(0.1)

    def names(self):
        first, second = self.spaces
        return {"first": first, "second": second, "agent": self.agent, "net": self.net, "interface": self.interface}

    def on(self, address, words):
        """A command as a machine runs it."""
        return ["ip", "netns", "exec", self.spaces[address], "unshare", "-u", "sh", "-c",
                f'hostname {self.hosts[address]}; exec "$@"', "sh", *words]

    def on_first(self, words):
        return self.on(next(iter(self.spaces)), words)

    def sent(self):
        """Bytes that the first machine has put on the cable."""
        _, out, _ = harness.run(["ip", "-n", next(iter(self.spaces.values())), "-j", "-s", "link", "show", self.interface])
        return json.loads(out)[0]["stats64"]["tx"]["bytes"]

    def processes(self, address):
        return processes_in(self.spaces[address])

    def kill_machine(self, address):
        """The machine is gone: nothing on it runs, nothing comes from it."""
        self.cut()
        kill_all(self.spaces[address])

    def cut(self):
        self.run("ip", "-n", next(iter(self.spaces.values())), "link", "set", self.interface, "down")

    def remove(self):
        for space in self.spaces.values():
            remove_space(space)

    @classmethod
    def sweep(cls):
        """Removes what tests left that were killed: the name of a space says whose it is."""
        _, out, _ = harness.run(["ip", "netns", "list"])
        names = "|".join(cls.hosts.values())
        for space, owner in re.findall(rf"^(weft(\d+)(?:{names}|probe))\b", out, re.M):
            if not pathlib.Path("/proc", owner).exists():
                remove_space(space)


def processes_in(space):
    _, out, _ = harness.run(["ip", "netns", "pids", space])
    return [int(pid) for pid in out.split()]


def kill_all(space):
    """Again until nothing is left: what is killed may just have started another."""
    for _ in range(100):
        pids = processes_in(space)
        if not pids:
            return
        for pid in pids:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        time.sleep(0.02)


def remove_space(space):
    kill_all(space)
    harness.run(["ip", "netns", "del", space])
