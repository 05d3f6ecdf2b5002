"""An export with PyTorch's defaults: parameters are trained, a buffer and folded constants stay, and the folded transpose of the
embedding is the embedding. PyTorch's loss of step 20 is 2.76."""

import json

import numpy as np
import onnx
from onnx import numpy_helper

import harness

LOSS = 2.76


def initialisers(file):
    return {each.name: numpy_helper.to_array(each) for each in onnx.load(file).graph.initializer}


def run(case):
    program, log, run, trained = (case.out / name for name in ("program", "log.jsonl", "run", "trained.onnx"))
    model = case.folder / "model.onnx"
    status, _, err = harness.weft("compile", model, "--schedule", case.folder / "schedule.yaml", "-o", program)
    harness.check(f"{case.name}/compiles without a warning", status == 0 and "warning" not in err, err[-300:])
    status, _, err = harness.run([program, "--data", f"tokens={case.folder / 'tokens.npy'}", "--steps", 20, "--log", log, "--checkpoint", run])
    if not harness.check(f"{case.name}/runs", status == 0, err[-300:]):
        return
    loss = json.loads(log.read_text().splitlines()[-1])["loss"]
    harness.check(f"{case.name}/loss of step 20", abs(loss - LOSS) < 5e-3, loss)
    harness.weft("export", model, run, "-o", trained)
    before, after = initialisers(model), initialisers(trained)
    moved = {name for name in before if not np.array_equal(before[name], after[name])}
    harness.check(f"{case.name}/what moves", moved == {"emb.weight", "qkv.bias", "val_0", "val_74"}, moved)
    harness.check(f"{case.name}/the copy stays one", np.array_equal(after["val_74"], after["emb.weight"].T))
