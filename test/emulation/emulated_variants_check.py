# test: full
"""Variants of the cuda target, over the emulation: a state goes on from one to the other, captured graphs and all, on one
rank and on two; and a generation."""

import json
import sys

import onnxruntime

import harness
from emulated import Emulated

sys.path[:0] = [str(harness.ROOT / "test" / part) for part in ("models", "end_to_end")]
import emulated_generation_check  # noqa: E402
from generation_check import DIMS, PROMPT, make_model, schedule  # noqa: E402
from text_generation import generate  # noqa: E402
from variants_check import MODEL_TEXT, ROWS, SCHEDULE, check_requests  # noqa: E402


def check_small(emulated, folder):
    model = folder / "running.onnxtxt"
    model.write_text(MODEL_TEXT)
    for ranks in (1, 2):
        name = f"running{ranks}"
        text = {**SCHEDULE, "mesh": {"tp": ranks}, "dims": {"seq": "1,4", "past": f"<={ROWS}"}}
        (folder / f"{name}.yaml").write_text(json.dumps(text))
        status, _, err = emulated.run("compile", model, "--schedule", folder / f"{name}.yaml", "-o", folder / name, "--quiet")
        if harness.check(f"{name}/compiles", status == 0, f"exit {status}: {err[-400:]}"):
            check_requests(name, folder / name, folder, [4, 1, 1, 1, 4, 4, 1], [f"seq={n}" for n in (4, 1, 1, 1, 4, 4, 1)],
                           env=emulated.environment)


def check_generation(emulated, folder):
    session = onnxruntime.InferenceSession(make_model("gpt2", folder / "whole.onnx"), providers=["CPUExecutionProvider"])
    model = make_model("gpt2", folder / "gpt2.onnx", "--past")
    (folder / "gpt2.yaml").write_text(schedule("gpt2", 2, dims={**DIMS["gpt2"], "seq": "1,4"}))
    status, _, err = emulated.run("compile", model, "--schedule", folder / "gpt2.yaml", "-o", folder / "gpt2", "--quiet")
    if harness.check("generation/compiles", status == 0, f"exit {status}: {err[-400:]}"):
        emulated_generation_check.check_tokens("generation", emulated, folder / "gpt2", folder, generate(session, PROMPT, 12), "--poison")


if __name__ == "__main__":
    harness.need_weft()
    target, scratch = Emulated(), harness.scratch("emulated_variants")
    check_small(target, scratch)
    check_generation(target, scratch)
