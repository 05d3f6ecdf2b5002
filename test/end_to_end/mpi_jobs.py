"""The MPIs that are installed, and jobs that their launchers start, here or on two machines that a cable joins."""

import dataclasses
import filecmp
import os
import pathlib
import re
import shutil
import signal
import subprocess
import tempfile
import time

import harness

# What another launcher, or an outer job, may have left in the environment.
LAUNCHERS = ("OMPI_", "PMI", "PMIX_", "HYDRA_", "MPI_", "SLURM_", "MASTER_", "WORLD_SIZE", "RANK", "LOCAL_", "WEFT_RANK")


@dataclasses.dataclass
class Mpi:
    name: str
    mpicc: str
    mpirun: str
    packages: str
    flags: list  # of every job: more ranks than cores, and none bound to a core
    on_hosts: list  # of a job on several machines: filled in by Cable.mpi_flags

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
         "--mca", "btl_tcp_if_include", "{net}", "--mca", "oob_tcp_if_include", "{net}"]),
    Mpi("mpich", "mpicc.mpich", "mpiexec.mpich", "mpich libmpich-dev", ["-bind-to", "none"],
        ["-hosts", "{first}:2,{second}:2", "-launcher", "ssh", "-launcher-exec", "{agent}", "-iface", "{interface}",
         "-genv", "UCX_NET_DEVICES", "{interface}", "-genv", "UCX_TLS", "tcp,self"]),
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


def run_job(command, timeout=120, meanwhile=None, **environment):
    """Runs a launcher and calls meanwhile() once it has begun. Its output goes to files: what a launcher leaves behind on
    a machine that is cut off holds its end of a pipe for long."""
    begin = time.monotonic()
    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as err:
        process = subprocess.Popen([str(word) for word in command], env=plain_environment(**environment),
                                   stdin=subprocess.DEVNULL, stdout=out, stderr=err, start_new_session=True)
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

    @staticmethod
    def missing():
        if os.geteuid() != 0:
            return "needs root, for network namespaces"
        absent = [tool for tool in ("ip", "tc", "unshare") if not shutil.which(tool)]
        if absent:
            return f"no {', '.join(absent)} (Debian: apt-get install iproute2 util-linux)"
        probe = f"weftprobe{os.getpid()}"
        status, _, err = harness.run(["ip", "netns", "add", probe])
        harness.run(["ip", "netns", "del", probe])
        return f"no network namespaces here: {err}" if status else ""

    def lay(self):
        first, second = self.spaces.values()
        for space in (first, second):
            self.run("ip", "netns", "add", space)
        self.run("ip", "link", "add", self.interface, "netns", first, "type", "veth", "peer", "name", self.interface,
                 "netns", second)
        for address, space in self.spaces.items():
            self.run("ip", "-n", space, "addr", "add", f"{address}/24", "dev", self.interface)
            self.run("ip", "-n", space, "link", "set", self.interface, "up")
            self.run("ip", "-n", space, "link", "set", "lo", "up")
            self.run("ip", "netns", "exec", space, "tc", "qdisc", "add", "dev", self.interface, "root", "tbf", "rate",
                     self.rate, "burst", "256kb", "latency", "50ms")
        for space in self.spaces.values():
            self.await_up(space)
        # What a launcher calls as ssh: options, a host, then words for a shell.
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

    def on_first(self, words):
        """A command as the first machine runs it."""
        address, space = next(iter(self.spaces.items()))
        return ["ip", "netns", "exec", space, "unshare", "-u", "sh", "-c", f'hostname {self.hosts[address]}; exec "$@"',
                "sh", *words]

    def processes(self, address):
        _, out, _ = harness.run(["ip", "netns", "pids", self.spaces[address]])
        return [int(pid) for pid in out.split()]

    def kill_machine(self, address):
        """The machine is gone: nothing on it runs, nothing comes from it."""
        self.cut()
        for pid in self.processes(address):
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass

    def cut(self):
        self.run("ip", "-n", next(iter(self.spaces.values())), "link", "set", self.interface, "down")

    def remove(self):
        for address, space in self.spaces.items():
            for pid in self.processes(address):
                try:
                    os.kill(pid, signal.SIGKILL)
                except ProcessLookupError:
                    pass
            subprocess.run(["ip", "netns", "del", space], capture_output=True)
