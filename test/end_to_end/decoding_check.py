# test: slow
"""GPT-2 with its keys and values as states (samples/gpt2/decode.yaml), fed a prompt and then token by token, in one run
and over several. It gives the results of the model without a cache for the whole text, on one rank and on two."""


import numpy as np
import onnxruntime

import harness

SAMPLE = harness.ROOT / "samples" / "gpt2"
SIZE = ["--layers", "2", "--width", "32", "--heads", "4", "--vocab", "101", "--context", "64"]
BOUND = 64
PROMPT = 5
TEXT = np.random.default_rng(7).integers(0, 101, (1, 12))
TOLERANCE = 1e-4


def save_tokens(folder):
    """Writes the inputs of the requests: the prompt, then one token each."""
    np.save(folder / "tokens0.npy", TEXT[:, :PROMPT])
    for i in range(PROMPT, TEXT.shape[1]):
        np.save(folder / f"tokens{i - PROMPT + 1}.npy", TEXT[:, i:i + 1])
    return TEXT.shape[1] - PROMPT + 1


def check_logits(name, folder, wanted):
    found = np.load(folder / "logits.npy")
    wanted = wanted[:, -found.shape[1]:]
    error = harness.relative_error(found, wanted) if found.shape == wanted.shape else f"shape {found.shape}"
    harness.check(name, not isinstance(error, str) and error <= TOLERANCE, f"error {error}")


def check_starts(name, program, folder, session):
    """Each request is a start of its own: the states travel through files."""
    state = []
    for i in range(save_tokens(folder)):
        status, _, err = harness.run([program, "--input", f"input_ids={folder}/tokens{i}.npy", "--output-dir", folder / "out",
                                      "--save-state", folder / "state", *state])
        if not harness.check(f"{name}/start {i}", status == 0, f"exit {status}: {err[-300:]}"):
            return
        state = ["--load-state", folder / "state"]
        check_logits(f"{name}/logits of start {i}", folder / "out",
                     session.run(None, {"input_ids": TEXT[:, :PROMPT + i]})[0])
    rows = np.load(folder / "state" / "past_k.1.npy").shape[2]
    harness.check(f"{name}/rows of the state", rows == TEXT.shape[1], f"{rows}")


def check_one_start(name, program, folder, session):
    requests = save_tokens(folder)
    status, _, err = harness.run([program, "--input", f"input_ids={folder}/tokens{{i}}.npy", "--iterations", str(requests),
                                  "--poison", "--output-dir", folder / "out"])
    if harness.check(f"{name}/one start", status == 0, f"exit {status}: {err[-300:]}"):
        check_logits(f"{name}/logits of one start", folder / "out", session.run(None, {"input_ids": TEXT})[0])


def check_start_values(name, program, folder):
    """A state is set by --input as by --load-state, and one that would outgrow its bound is refused."""
    inputs = [f"--input={kind}={folder}/state/{kind}.npy" for layer in (0, 1) for kind in (f"past_k.{layer}", f"past_v.{layer}")]
    token = ["--input", f"input_ids={folder}/tokens1.npy"]
    logits = []
    for flags in (inputs, ["--load-state", folder / "state"]):
        status, _, err = harness.run([program, *token, *flags, "--output-dir", folder / "out"])
        if not harness.check(f"{name}/begins as {str(flags[0]).split('=')[0]} says", status == 0, f"exit {status}: {err[-300:]}"):
            return
        logits.append(np.load(folder / "out" / "logits.npy"))
    harness.check(f"{name}/--input is --load-state", np.array_equal(*logits), "other logits")
    np.save(folder / "long.npy", np.zeros((1, BOUND - TEXT.shape[1] + 1), np.int64))
    status, _, err = harness.run([program, "--input", f"input_ids={folder}/long.npy", "--load-state", folder / "state"])
    harness.check(f"{name}/outgrown", status == 1 and "past_k.0" in err and str(BOUND) in err, f"exit {status}: {err[-300:]}")


def main():
    folder = harness.scratch("decoding")
    session = onnxruntime.InferenceSession(harness.make_gpt2(folder / "whole.onnx", *SIZE), providers=["CPUExecutionProvider"])
    model = harness.make_gpt2(folder / "gpt2.onnx", *SIZE, "--past")
    for name in ("decode", "decode_tp2"):
        program = folder / name
        status, _, err = harness.weft("compile", model, "--schedule", SAMPLE / f"{name}.yaml", "-o", program, "--quiet")
        if not harness.check(f"{name}/compiles", status == 0, f"exit {status}: {err[-400:]}"):
            continue
        check_starts(name, program, folder, session)
        check_one_start(name, program, folder, session)
        check_start_values(name, program, folder)


harness.need_weft()
main()
