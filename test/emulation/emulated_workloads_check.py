# test: slow, long
"""The workloads of samples/ for cuda, executed on the CPU, give the results of one rank on the host. Half of the
schedules run on 4 ranks (`full`: all, and on 2 as well). In `full` fused and overlapped programs run under the address
and thread sanitizers too."""

import pathlib
import sys
import zlib

import harness

sys.path[:0] = [str(harness.ROOT / "test" / "end_to_end"), str(pathlib.Path(__file__).resolve().parent)]
import emulate  # noqa: E402
import sanitizers_check  # noqa: E402
import workloads_check  # noqa: E402
from emulated import Emulated  # noqa: E402

# One schedule of each kind: a fused collective, chunks on streams, a product that signals, everything in one kernel.
SANITIZED = {"adam": ["fused"], "attention_tail": ["fused", "overlapped", "overlapped_signal", "overlapped_fused"]}
RANKS = "4"


class EmulatedCheck(workloads_check.Check):
    def __init__(self, workload, emulated):
        super().__init__(workload, "emulated_workloads")
        self.emulated = emulated

    def compile(self, verb, *arguments):
        return self.emulated.run(verb, *arguments, "--quiet")

    def schedule(self, file, mesh):
        is_chosen = zlib.crc32(f"{self.workload.name}/{file.stem}".encode()) % 3 == 0
        if mesh and not (mesh[1].endswith(RANKS) and is_chosen) and not harness.FULL:
            return
        name = file.stem + "".join(f" {flag}" for flag in mesh if flag != "--mesh")
        flags = ["--schedule", file, *mesh]
        for case, outputs in self.outputs(name, flags, self.compile).items():
            workloads_check.compare(f"{self.workload.name}/{name}/{case}", outputs, self.wanted[case], False)

    def sanitized(self, presets):
        """Programs of two ranks whose memory and whose order of accesses is watched."""
        for file in self.schedules():
            if file.stem in SANITIZED.get(self.workload.name, []):
                self.sanitize(file, self.workload.meshes[0], presets)

    def sanitize(self, file, mesh, presets):
        name, source = f"{self.workload.name}/{file.stem}", self.folder / f"{file.stem}_source"
        status, _, err = harness.weft("compile", self.model, *self.dims, "--schedule", file, *mesh, "--target", "cuda", "--arch",
                                      "sm_90", "--emit", "source", "-o", source)
        if not harness.check(f"{name}/emit", status == 0, f"exit {status}: {err[-300:]}"):
            return
        for preset in presets:
            program = self.folder / f"{file.stem}_{preset}" / "program"
            program.parent.mkdir()
            error = emulate.build_program(source, program, harness.ROOT / "build" / preset, harness.JOBS)
            if not harness.check(f"{preset}/{name}/build", not error, error[-400:]):
                continue
            for case in self.workload.cases:
                try:
                    found = workloads_check.outputs_of(program, self.arguments[case.name],
                                                       self.folder / f"{file.stem}.{preset}.{case.name}")
                except RuntimeError as reason:
                    harness.failed(f"{preset}/{name}/{case.name}", reason)
                    continue
                workloads_check.compare(f"{preset}/{name}/{case.name}", found, self.wanted[case.name], False)


def main():
    emulated = Emulated()
    presets = [preset for preset in harness.FULL * ("asan", "tsan") if sanitizers_check.build(preset, ["weft_runtime_emulated"])]
    for workload in workloads_check.WORKLOADS:
        check = EmulatedCheck(workload, emulated)
        check.run()
        if check.wanted:
            check.sanitized(presets)


if __name__ == "__main__":
    harness.need_weft()
    main()
