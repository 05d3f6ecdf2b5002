"""Expected results for models that come without: ONNX Runtime on seeded inputs, made once and kept in build/corpus.

One process a model: some of these files are broken on purpose and take the reader down with them.
"""

import concurrent.futures
import pathlib
import shutil
import sys

import numpy as np
import onnx

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
import harness  # noqa: E402

REFERENCE = harness.ROOT / "test" / "models" / "reference.py"


def make_references(jobs):
    """jobs: rows of (model, folder, flags of reference.py). Returns {model: None, or why there is no reference}."""
    with concurrent.futures.ThreadPoolExecutor(harness.JOBS) as pool:
        return dict(zip((job[0] for job in jobs), pool.map(lambda job: make_reference(*job), jobs)))


def make_reference(model, folder, flags):
    complaint = folder / "no_reference.txt"
    if complaint.exists():
        return complaint.read_text()
    if (folder / "done").exists():
        return None
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    status, _, err = harness.run([sys.executable, REFERENCE, model, folder, *flags], timeout=120)
    if status == 0:
        (folder / "done").write_text("")
        return None
    why = (err.strip().split("\n") or [""])[-1][-200:] or f"exit {status}"
    complaint.write_text(why)
    return why


def arrays_to_folder(model, arrays_in, arrays_out, folder):
    """Data that lies in .npz files, written as input_N and output_N in the order of the model's inputs and outputs."""
    graph = onnx.load(model, load_external_data=False).graph
    weights = {tensor.name for tensor in graph.initializer}
    folder.mkdir(parents=True, exist_ok=True)
    inputs = [value.name for value in graph.input if value.name not in weights]
    for kind, names, arrays in (("input", inputs, arrays_in), ("output", [v.name for v in graph.output], arrays_out)):
        for index, name in enumerate(names):
            key = name if name in arrays else list(arrays)[index]
            np.save(folder / f"{kind}_{index}.npy", arrays[key])
