# test: slow
"""A server of the cuda target, over the emulation: sessions token by token, and a state that outgrows its bound, which
only a kernel notices. On one rank and on two."""

import os
import subprocess
import sys

import numpy as np

import harness
from emulated import Emulated

SAMPLES = harness.ROOT / "samples"
sys.path.insert(0, str(SAMPLES / "serve"))
from client import CLOSE, RUN, STOP, Client  # noqa: E402

SIZE = ["--layers", "1", "--width", "16", "--heads", "2", "--vocab", "31", "--context", "64", "--past"]
TOKENS = np.array([[3, 1, 4, 1, 5]])
TOLERANCE = 1e-4


def check_server(name, path):
    client = Client(path)
    whole = client.request(RUN, input_ids=TOKENS)["logits"]
    for i in range(TOKENS.shape[1]):
        last = client.request(RUN, "mine", input_ids=TOKENS[:, i:i + 1])["logits"]
    error = float(np.max(np.abs(last - whole[:, -1:])) / np.max(np.abs(whole)))
    harness.check(f"{name}/token by token", error <= TOLERANCE, f"error {error}")
    try:
        client.request(RUN, "mine", input_ids=np.zeros((1, 60), int))
        found = "no error"
    except ValueError as refusal:
        found = str(refusal)
    harness.check(f"{name}/outgrown", "more than its bound of 64" in found, found)
    client.request(CLOSE, "mine")
    again = client.request(RUN, "mine", input_ids=TOKENS)["logits"]
    harness.check(f"{name}/begins anew", np.array_equal(again, whole), "other logits")
    client.request(STOP)


def check_program(name, program, environment):
    path = f"/tmp/weft_emulated_serve_{os.getpid()}_{name}"
    with subprocess.Popen([program, "--serve", f"unix:{path}"], env=environment, stdout=subprocess.DEVNULL,
                          stderr=subprocess.PIPE, text=True) as process:
        try:
            harness.wait_for_server(path, process)
            check_server(name, path)
            code = process.wait(timeout=60)
            harness.check(f"{name}/stops", code == 0, f"exit {code}")
        finally:
            process.kill()


def main():
    folder = harness.scratch("emulated_serve")
    emulated, model = Emulated(), harness.make_gpt2(folder / "gpt2.onnx", *SIZE)
    for name in ("decode", "decode_tp2"):
        program = folder / name
        status, _, err = emulated.run("compile", model, "--schedule", SAMPLES / "gpt2" / f"{name}.yaml", "-o", program, "--quiet")
        if harness.check(f"{name}/compiles", status == 0, f"exit {status}: {err[-400:]}"):
            check_program(name, program, emulated.environment)


harness.need_weft()
main()
