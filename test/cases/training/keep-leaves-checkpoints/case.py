"""Runs that are killed while they write checkpoints leave none for good beyond --keep."""

import os
import random
import signal
import subprocess
import time

import harness

KILLS = 12


def run(case):
    inputs = case.folder.parent / "eval-drops-samples"
    program, folder = case.out / "program", case.out / "run"
    status, _, err = harness.weft("compile", inputs / "model.onnx", "--schedule", inputs / "schedule.yaml", "-o", program)
    if not harness.check(f"{case.name}/compiles", status == 0, err[-300:]):
        return
    draw = random.Random(2)
    begin = [program, "--data", f"x={inputs / 'x.npy'}", "--data", f"labels={inputs / 'y.npy'}", "--threads", "1", "--checkpoint", folder, "--every", "1", "--keep", "2"]
    resume = lambda: ["--resume", folder] if (folder / "latest").exists() else []
    for _ in range(KILLS):
        process = subprocess.Popen([*begin, "--steps", "100000", *resume()], stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL, start_new_session=True)
        time.sleep(draw.uniform(0.1, 0.4))
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    step = int((folder / "latest").read_text().removeprefix("step-"))
    status, _, err = harness.run([*begin, "--steps", str(step + 3), *resume()])
    harness.check(f"{case.name}/goes on", status == 0, err[-300:])
    left = sorted(place.name for place in folder.iterdir())
    harness.check(f"{case.name}/what is left", left == ["latest", f"step-{step + 2:06}", f"step-{step + 3:06}"], left)
