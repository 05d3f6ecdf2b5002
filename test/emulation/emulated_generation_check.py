# test: full
"""`generate:` of the cuda target, over the emulation: GPT-2 and a model of Llama's kind give the tokens that they give without
a cache, greedily and drawn, on one rank and on two."""

import sys

import onnxruntime

import harness
from emulated import Emulated

sys.path[:0] = [str(harness.ROOT / "test" / part) for part in ("models", "end_to_end")]
from generation_check import PROMPT, SAMPLING, flags_of, make_model, run, schedule  # noqa: E402
from text_generation import generate  # noqa: E402

TOKENS = 12


def check_tokens(name, emulated, program, folder, wanted, *flags):
    status, told, err = run(program, folder, PROMPT, "--max-new", TOKENS, *flags, env=emulated.environment)
    if harness.check(f"{name}/runs", status == 0, f"exit {status}: {err[-300:]}"):
        harness.check(f"{name}/tokens", told["tokens"] == wanted.tolist(), f"{told['tokens']}, not {wanted.tolist()}")


def check_kind(emulated, kind, folder):
    session = onnxruntime.InferenceSession(make_model(kind, folder / f"{kind}_whole.onnx"), providers=["CPUExecutionProvider"])
    model = make_model(kind, folder / f"{kind}.onnx", "--past")
    for ranks in (1, 2):
        name = f"{kind}{ranks}"
        (folder / f"{name}.yaml").write_text(schedule(kind, ranks))
        status, _, err = emulated.run("compile", model, "--schedule", folder / f"{name}.yaml", "-o", folder / name, "--quiet")
        if harness.check(f"{name}/compiles", status == 0, f"exit {status}: {err[-400:]}"):
            check_tokens(f"{name}/greedy", emulated, folder / name, folder, generate(session, PROMPT, TOKENS), "--poison")
            check_tokens(f"{name}/drawn", emulated, folder / name, folder, generate(session, PROMPT, TOKENS, **SAMPLING), *flags_of(SAMPLING))


if __name__ == "__main__":
    harness.need_weft()
    target = Emulated()
    for each in ("gpt2", "llama"):
        check_kind(target, each, harness.scratch(f"emulated_generation/{each}"))
