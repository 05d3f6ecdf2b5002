"""A buffer that the file marks is neither moved nor decayed: initialisers after two steps are PyTorch's."""

import numpy as np
import onnx
from onnx import numpy_helper

import harness


def run(case):
    program, run, trained = case.out / "program", case.out / "run", case.out / "trained.onnx"
    model = case.folder / "model.onnx"
    status, _, err = harness.weft("compile", model, "--schedule", case.folder / "schedule.yaml", "-o", program)
    if not harness.check(f"{case.name}/compiles", status == 0, err[-300:]):
        return
    harness.run([program, "--data", f"ids={case.folder / 'ids.npy'}", "--steps", 2, "--checkpoint", run])
    harness.weft("export", model, run, "-o", trained)
    found = {each.name: numpy_helper.to_array(each) for each in onnx.load(trained).graph.initializer}
    for file in sorted(case.folder.glob("expected_*.npy")):
        name = file.stem.removeprefix("expected_")
        error = harness.relative_error(found[name], np.load(file))
        harness.check(f"{case.name}/{name}", error < 1e-5, error)
