"""A Slurm cluster on the two machines of a cable: a controller, a daemon on each, and srun on the first."""

import os
import shutil
import subprocess
import time

import harness
from mpi_jobs import end_with_parent, run_job

CONFIGURATION = """ClusterName=weft
SlurmctldHost={first_name}({first})
SlurmUser=root
SlurmdUser=root
AuthType=auth/none
CredType=cred/none
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/linear
SchedulerType=sched/builtin
SwitchType=switch/none
MpiDefault=none
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool-%n
TmpFS={folder}/tmp-%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd-%n.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd-%n.log
NodeName={first_name} NodeAddr={first} CPUs={cores}
NodeName={second_name} NodeAddr={second} CPUs={cores}
PartitionName=all Nodes={first_name},{second_name} Default=YES State=UP
"""


class Cluster:
    """Its daemons live in the cable's spaces and end with them."""

    def __init__(self, cable, folder):
        self.cable, self.folder = cable, folder
        self.variables = {"SLURM_CONF": str(folder / "slurm.conf")}

    @staticmethod
    def missing():
        """Why there can be none; empty if there can."""
        absent = [tool for tool in ("slurmctld", "slurmd", "srun") if not shutil.which(tool)]
        return f"no {', '.join(absent)} (Debian: apt-get install slurmctld slurmd slurm-client)" if absent else ""

    def start(self):
        shutil.rmtree(self.folder, ignore_errors=True)
        (first, first_name), (second, second_name) = self.cable.hosts.items()
        for name in ("state", *(f"{kind}-{host}" for kind in ("spool", "tmp") for host in (first_name, second_name))):
            (self.folder / name).mkdir(parents=True)
        (self.folder / "slurm.conf").write_text(CONFIGURATION.format(
            folder=self.folder, cores=os.cpu_count(), first=first, first_name=first_name, second=second,
            second_name=second_name))
        # No group of processes is made, but slurmd wants to know of which kind it would be.
        (self.folder / "cgroup.conf").write_text("CgroupPlugin=cgroup/v1\n")
        for address, daemon in ((first, "slurmctld"), (first, "slurmd"), (second, "slurmd")):
            subprocess.Popen(self.cable.on(address, [daemon, "-D"]), env={**os.environ, **self.variables},
                             stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                             start_new_session=True, preexec_fn=end_with_parent)
        return self.is_ready()

    def is_ready(self):
        """Whether both machines take jobs, after some seconds at most."""
        for _ in range(100):
            _, out, _ = harness.run(self.cable.on_first(["sinfo", "-h", "-o", "%D %T"]), env={**os.environ, **self.variables})
            if out.split() == ["2", "idle"]:
                return True
            time.sleep(0.1)
        return False

    def log(self):
        return " ".join(path.read_text()[-300:] for path in sorted(self.folder.glob("*.log")))

    def run(self, ranks, words, mpi=None, machines=2, **more):
        """A job of srun; without an MPI its ranks are told nothing of each other."""
        names = self.cable.names()
        variables = {name: value.format(**names) for name, value in mpi.variables.items()} if mpi else {}
        command = ["srun", f"--nodes={machines}", f"--ntasks={ranks}", f"--mpi={mpi.pmi if mpi else 'none'}", *words]
        return run_job(self.cable.on_first([str(word) for word in command]), **more, **self.variables, **variables)
