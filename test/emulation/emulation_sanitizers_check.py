# test: full, long
"""The emulation's tests and emitted cuda programs under the address and thread sanitizers."""

import os
import pathlib
import shutil
import sys

import numpy as np
import sanitizers_check
import unit_check

import harness

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import emulate  # noqa: E402

FIXTURES = harness.ROOT / "test" / "fixtures"
MLP = harness.ROOT / "samples" / "mlp"
PROGRAMS = [(MLP / "mlp.onnxtxt", MLP / "tp2_overlap.yaml"), (MLP / "mlp.onnxtxt", MLP / "dp2.yaml")] + [
    (FIXTURES / f"{name}.onnxtxt", FIXTURES / f"{name}.yaml")
    for name in ("far_overlap", "loop_all_reduce", "two_places", "convolutions", "rows", "overlap_fused", "overlap_blocks",
                 "overlap_blocks_signal", "overlap_accumulate")]
ORDERS = [{}, {"WEFT_EMULATION_SEED": "7", "WEFT_EMULATION_DELAY_US": "300"}, {"WEFT_EMULATION_NCCL": "1"}]
RUN = ["--random-inputs", "5", "--iterations", "3", "--poison", "--timeout", "20"]


def emit(model, schedule, folder):
    """The emitted source, or None and a failure."""
    status, _, err = harness.weft("compile", model, "--schedule", schedule, "--target", "cuda", "--arch", "sm_90",
                                  "--emit", "source", "-o", folder)
    return folder if harness.check(f"{folder.name}/emit", status == 0, f"exit {status}: {err[-300:]}") else None


def build(preset, source, program):
    return emulate.build_program(source, program, harness.ROOT / "build" / preset, harness.JOBS)


def run(program, outputs, order):
    """(exit status, text, outputs by name)."""
    shutil.rmtree(outputs, ignore_errors=True)
    status, out, err = harness.run([program, *RUN, "--output-dir", outputs], env=dict(os.environ, **order), timeout=600)
    return status, out + err, {file.name: np.load(file) for file in outputs.glob("*.npy")} if status == 0 else {}


def alike(got, wanted):
    return got.keys() == wanted.keys() and all(
        np.allclose(got[name], wanted[name], rtol=0, atol=1e-4 * max(1e-30, np.abs(wanted[name]).max())) for name in wanted)


def host_outputs(model, schedule, folder):
    harness.weft("compile", model, "--schedule", schedule, "-o", folder / "host")
    return run(folder / "host", folder / "wanted", {})[2]


def check_program(preset, source, folder, wanted):
    name = f"{preset}/{source.name}"
    error = build(preset, source, folder / preset)
    if not harness.check(f"{name}/build", not error, error[-400:]):
        return
    for number, order in enumerate(ORDERS):
        status, text, got = run(folder / preset, folder / "got", order)
        harness.check(f"{name}/order {number}", status == 0 and alike(got, wanted), f"exit {status}: {text[-800:]}")


def main():
    folder = harness.scratch("emulation_sanitizers")
    built = [preset for preset in ("asan", "tsan")
             if sanitizers_check.build(preset, ["emulation_tests", "weft_runtime_emulated"])]
    for preset in built:
        unit_check.run_executable(harness.ROOT / "build" / preset / "emulation_tests", f"{preset}/emulation_tests")
    for model, schedule in PROGRAMS:
        place = folder / f"{model.stem} {schedule.stem}"
        place.mkdir()
        source = emit(model, schedule, place / f"{model.stem}, {schedule.stem}")
        if source is None:
            continue
        wanted = host_outputs(model, schedule, place)
        for preset in built:
            check_program(preset, source, place, wanted)


if __name__ == "__main__":
    harness.need_weft()
    main()
