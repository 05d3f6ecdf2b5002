"""Two ranks as torchrun starts them, of which only rank 0 has --output-dir: both say at once that the flags differ; with the
same flags they run. Ranks of the same model with other weights say that they are other programs, and none leaves a file in
/dev/shm, however it ends. Weights outlive `strip`."""

import os
import shutil
import signal
import subprocess
import time

import numpy as np
import onnx

import harness

LAUNCHERS = ("OMPI_", "PMI", "PMIX_", "SLURM_", "MASTER_", "WORLD_SIZE", "RANK", "LOCAL_", "WEFT_")


def start(program, rank, *flags):
    kept = {name: value for name, value in os.environ.items() if not name.startswith(LAUNCHERS)}
    job = dict(kept, RANK=str(rank), WORLD_SIZE="2", LOCAL_WORLD_SIZE="2", MASTER_PORT=str(20000 + os.getpid() % 10000))
    return subprocess.Popen([program, "--random-inputs", "1", "--timeout", "40", *map(str, flags)], env=job, text=True,
                            stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)


def ends(*ranks):
    begin = time.monotonic()
    said = [rank.communicate(timeout=60)[1] for rank in ranks]
    return [rank.returncode for rank in ranks], said, time.monotonic() - begin


def refused(case, name, code, words, *ranks):
    codes, said, seconds = ends(*ranks)
    ok = codes == [code, code] and all(words in text for text in said) and seconds < 20
    harness.check(f"{case.name}/{name}", ok, f"exits {codes} after {seconds:.1f} s: {said}")


def compiled(case, model, name):
    program = case.out / name
    status, _, err = harness.weft("compile", model, "--schedule", case.folder / "schedule.yaml", "--dim", "batch=2", "-o", program)
    return harness.check(f"{case.name}/{name} compiles", status == 0, err[-300:]) and program


def other_weights(case):
    model = onnx.load(case.folder / "model.onnx")
    weight = model.graph.initializer[0]
    changed = onnx.numpy_helper.to_array(weight) + np.float32(1)
    weight.CopyFrom(onnx.numpy_helper.from_array(changed, weight.name))
    onnx.save(model, case.out / "other.onnx")
    return case.out / "other.onnx"


def segments():
    return sorted(name for name in os.listdir("/dev/shm") if name.startswith("weft")) if os.path.isdir("/dev/shm") else []


def run(case):
    one, other = compiled(case, case.folder / "model.onnx", "one"), compiled(case, other_weights(case), "other")
    if not one or not other:
        return
    before, flags = segments(), ("--output-dir", case.out / "o")
    codes, said, _ = ends(start(one, 0, *flags), start(one, 1, *flags))
    harness.check(f"{case.name}/alike", codes == [0, 0], f"exits {codes}: {said}")
    refused(case, "flags differ", 2, "give all ranks the same --output-dir", start(one, 0, *flags), start(one, 1))
    refused(case, "weights differ", 6, "rank 1 runs another program than rank 0", start(one, 0), start(other, 1))
    alone = start(one, 0)
    time.sleep(0.5)
    alone.send_signal(signal.SIGKILL)
    alone.communicate()
    harness.check(f"{case.name}/nothing is left", segments() == before, f"{before}, then {segments()}")
    stripped = case.out / "stripped"
    shutil.copy(one, stripped)
    subprocess.run(["strip", stripped], check=True)
    status, _, err = harness.run([stripped, "--random-inputs", "1", "--output-dir", case.out / "s"])
    same = status == 0 and all(np.array_equal(np.load(file), np.load(case.out / "o" / file.name)) for file in (case.out / "s").iterdir())
    harness.check(f"{case.name}/stripped", same, f"exit {status}: {err[-300:]}")
