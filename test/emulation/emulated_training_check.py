# test: slow
"""Trainings of the cuda target, over the emulation: the losses that the host target has, on one rank and on several, and a
checkpoint that one target leaves and the other goes on from."""

import json
import pathlib
import sys

import harness
import numpy as np

sys.path[:0] = [str(harness.ROOT / "test" / "end_to_end"), str(pathlib.Path(__file__).resolve().parent)]
import training_faults_check as faults  # noqa: E402
import training_runs_check as runs  # noqa: E402
from training_stages_check import STAGES  # noqa: E402
from emulated import Emulated  # noqa: E402

STEPS = 6
# The cases of the usual set.
USUAL = ("one", "tensor_parallel", "buckets_of_slices", "micro_batches_of_sliced_parameters", "zb-h1", "on_shared_ranks")


def steps(folder, program, name, *flags, env=None):
    """The losses of a run, and that of its evaluation; None after reporting."""
    data = [word for flag in ("--data", "--eval-data") for kind in ("x", "labels") for word in (flag, f"{kind}={folder / kind}.npy")]
    log = folder / f"{name}.jsonl"
    status, _, err = harness.run([program, *data, "--steps", STEPS, "--shuffle", "7", "--log", log, *flags], env=env)
    if not harness.check(f"{name}/runs", status == 0, f"exit {status}: {err[-300:]}"):
        return None
    lines = map(json.loads, log.read_text().splitlines())
    return np.array([line.get("loss", line.get("eval_loss")) for line in lines])


def check_split(folder, emulated, name, split, wanted, more=""):
    schedule = folder / f"{name}.yaml"
    schedule.write_text("weft: 1\n" + split + runs.TRAIN + more)
    status, _, err = emulated.run("compile", folder / "net.onnxtxt", "--schedule", schedule, "-o", folder / name, "--quiet")
    if not harness.check(f"{name}/compiles", status == 0, err[-300:]):
        return
    found = steps(folder, folder / name, name, "--checkpoint", folder / f"{name}_run", "--every", 3, env=emulated.environment)
    if found is not None:
        error = np.abs(found / wanted - 1).max()
        harness.check(f"{name}/losses of the host", error < 2e-5, error)
    resumed = steps(folder, folder / "host", f"{name}_resumed", "--resume", folder / f"{name}_run" / "step-000003")
    if resumed is not None:
        error = np.abs(resumed[-1] / wanted[-1] - 1)
        harness.check(f"{name}/the host goes on from its checkpoint", error < 2e-5, error)


def check_nan(folder, emulated):
    """--check-nan names the first step and node on a device as on the host, and changes nothing where all is finite."""
    faults.write_data(folder)
    program = faults.build(folder, "two", faults.LOSS + faults.ADAMW + "  accumulate: 2\n", faults.TWO, weft=emulated.run)
    if not program:
        return
    def train(*flags, **files):
        return harness.run(faults.command(folder, program, *flags, **files), env=emulated.environment, timeout=120)

    for name, files, words in (("a batch", {"x": "nan.npy"}, "step 7: 'fc1' (MatMul fc1, Add bias1, Relu act) computes nan"),
                               ("labels", {"labels": "ignored.npy"}, "(SoftmaxCrossEntropyLoss loss.grad) computes nan, as element 0 of 2; before that, ")):
        status, _, err = train("--steps", 12, "--check-nan", **files)
        harness.check(f"nan/the first step and node of {name}", status == 1 and words in err and err.count("error") == 1, err[-300:])
    plain, checked = folder / "plain.jsonl", folder / "checked.jsonl"
    train("--steps", 6, "--log", plain)
    status, _, err = train("--steps", 6, "--log", checked, "--check-nan")
    harness.check("nan/nothing else changes", status == 0 and faults.entries(plain) == faults.entries(checked), err[-300:])


if __name__ == "__main__":
    harness.need_weft()
    FOLDER = harness.scratch("emulated_training")
    EMULATED = Emulated()
    runs.write_data(FOLDER)
    HOST = runs.build(FOLDER, "host")
    WANTED = steps(FOLDER, HOST, "wanted") if HOST else None
    if WANTED is not None:
        CASES = {name: (split, "") for name, split in {"one": "", **runs.SPLITS}.items()}
        CASES |= {name: (split, f"  accumulate: {count}\n") for name, (split, count) in runs.ACCUMULATED.items()}
        CASES |= {name: (STAGES[name], "") for name in ("zb-h1", "of_slices", "twice_at_a_place", "on_shared_ranks")}
        for NAME in CASES if harness.FULL else USUAL:
            check_split(FOLDER, EMULATED, NAME.replace("-", "_"), CASES[NAME][0], WANTED, CASES[NAME][1])
    check_nan(harness.scratch("emulated_nan"), EMULATED)
