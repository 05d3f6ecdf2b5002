# test: full
"""Every schedule of samples/training on 1, 2, 4 and 8 ranks: the losses of one rank without a mesh."""

import re
import sys

import harness
import numpy as np
from training_runs_check import SAMPLES, losses

STEPS = 8
# GPT-2 with a head for each of eight ranks, and as many experts.
GPT2 = ["--layers", "2", "--width", "64", "--heads", "8", "--vocab", "256", "--context", "64"]
EXPERTS = ["--experts", "8"]
# For each number of ranks: sizes of dp and tp, and stages.
ALL_THREE = {1: (1, 1, 1), 2: (1, 1, 2), 4: (1, 2, 2), 8: (2, 2, 2)}


def on_ranks(text, ranks):
    """The schedule with its one axis, or its stages, of another size."""
    if "pipeline:" in text and "mesh:" in text:
        dp, tp, stages = ALL_THREE[ranks]
        return text.replace("dp: 2, tp: 2}", f"dp: {dp}, tp: {tp}}}").replace("stages: 2", f"stages: {stages}")
    return re.sub(r"(mesh: \{\w+: |stages: )2", rf"\g<1>{ranks}", text)


def steps(folder, name, model, text, data):
    """The losses of a few steps, or None."""
    schedule, log = folder / f"{name}.yaml", folder / f"{name}.jsonl"
    schedule.write_text(text)
    status, _, err = harness.weft("compile", model, "--schedule", schedule, "-o", folder / name)
    if status == 0:
        status, _, err = harness.run([folder / name, "--data", data, "--shuffle", "--steps", STEPS, "--log", log])
        (folder / name).unlink()
    return losses(log) if harness.check(f"{name}/runs", status == 0, f"exit {status}: {err[-400:]}") else None


def check_model(folder, model, plain, schedules, data):
    wanted = steps(folder, f"{plain}_one", model, (SAMPLES / f"{plain}.yaml").read_text(), data)
    for schedule in schedules if wanted is not None else ():
        for ranks in (1, 2, 4, 8):
            name = f"{schedule.stem}_on_{ranks}"
            found = steps(folder, name, model, on_ranks(schedule.read_text(), ranks), data)
            if found is not None:
                error = np.abs(found / wanted - 1).max()
                harness.check(f"{name}/losses of one rank", error < 2e-5, error)


def main():
    folder = harness.scratch("training_sample_ranks")
    tokens, experts = folder / "tokens.npy", folder / "experts.onnx"
    for command in ([SAMPLES / "bytes.py", tokens, harness.ROOT / "README.md"], [SAMPLES / "experts.py", experts, *EXPERTS]):
        status, _, err = harness.run([sys.executable, *command])
        if not harness.check(f"{command[0].name}/runs", status == 0, err[-300:]):
            return
    split = sorted(SAMPLES.glob("gpt2_*.yaml"))
    check_model(folder, harness.make_gpt2(folder / "gpt2.onnx", *GPT2), "gpt2", split, f"input_ids={tokens}")
    check_model(folder, experts, "experts", [SAMPLES / "experts_ep2.yaml"], f"tokens={tokens}")


if __name__ == "__main__":
    harness.need_weft()
    main()
