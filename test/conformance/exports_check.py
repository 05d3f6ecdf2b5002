# test: slow
"""Small networks of many families as PyTorch's exporters write them (exports/make.py), with batch, lengths and sizes of
images open to bounds. One executable matches ONNX Runtime for each of five requests, also on two ranks that share the
batch. In `full` all networks are exported anew and run also at fixed shapes and with the sequence sliced. They must
take no more memory than a program that is pinned to the bounds."""

import pathlib
import re
import sys

import numpy as np
import onnxruntime

import harness
from exported_anew import exported_anew
from verify_many import Case, report_complete, verify_many

EXPORTS = pathlib.Path(__file__).resolve().parent / "exports"
sys.path.insert(0, str(EXPORTS))
import families  # noqa: E402

REQUESTS = 5
# By default a few, of different families and of both exporters.
DEFAULT = ("bart_script", "bert_export", "gpt2_script", "llama_export", "vit_script", "wav2vec2_script", "yolo_export")
# A model with a view of all rows before each product: the ranks exchange the mask.
SLICED = "gpt2_script"
SLICED_COLLECTIVES = 2
# How much more memory than a program that is pinned to the bounds: lengths, and small arrays of positions and indices that
# are constants there. test/bench/lengths.py compares models whose memory is not made of those.
MORE_MEMORY, SMALL_ARRAYS = 1.05, 16384


def family_of(model):
    return families.FAMILIES[model.stem.rsplit("_", 1)[0]]


def session_of(model):
    """The reference; for quantized models without fusions, which round differently."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    if "_bytes_" in model.stem:
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    return onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])


def run(program, inputs, folder, *arguments):
    flags = []
    for name, value in inputs.items():
        np.save(folder / f"{name}.npy", value)
        flags += ["--input", f"{name}={folder / name}.npy"]
    return harness.run([program, *flags, *arguments])


def check_request(name, program, session, folder, inputs, tolerance):
    status, _, err = run(program, inputs, folder, "--output-dir", folder / "out")
    if not harness.check(f"{name}/runs", status == 0, f"exit {status}: {err[-300:]}"):
        return
    for output, wanted in zip(session.get_outputs(), session.run(None, inputs)):
        found = np.load(folder / "out" / f"{output.name}.npy")
        if not harness.check(f"{name}/shape of {output.name}", found.shape == wanted.shape, f"{found.shape}, not {wanted.shape}"):
            continue
        error = harness.relative_error(found, wanted)
        harness.check(f"{name}/{output.name}", error <= tolerance, f"relative error {error:.1e}")


def check_bounds(name, program, family, folder):
    """A request beyond a bound is refused by the name of an input."""
    for dim, bound in family.bounds.items():
        lengths = {**families.lengths(family, REQUESTS - 1), dim: bound + 1}
        status, _, err = run(program, families.arrays(family, lengths, 0), folder)
        named = any(each in err for each in family.inputs)
        harness.check(f"{name}/{dim} beyond its bound", status == 1 and named, f"exit {status}: {err[-200:]}")


def memory_bytes(model, dims, folder):
    """The bytes that a rank of a program allocates, and its weights."""
    status, _, err = harness.weft("compile", model, *dims, "--emit", "source", "-o", folder / "source", "--quiet")
    if status != 0:
        raise RuntimeError(f"{model.stem} {dims}: {err[-300:]}")
    own = re.search(r"\.own_bytes = (\d+)", (folder / "source" / "program.cpp").read_text())
    return int(own.group(1)) + (folder / "source" / "weights.bin").stat().st_size


def check_memory(model, family, folder):
    """The open program has room for the bounds and little more."""
    opened, pinned = (memory_bytes(model, [f"--dim={dim}{sign}{bound}" for dim, bound in family.bounds.items()], folder)
                      for sign in ("<=", "="))
    harness.measured(f"{model.stem}/memory", opened <= pinned * MORE_MEMORY + SMALL_ARRAYS, f"{opened} bytes, {pinned} pinned to the bounds")


def check_requests(name, model, flags, program, folder):
    """Compiles the model with these flags and checks each request; False if it does not compile."""
    family = family_of(model)
    status, _, err = harness.weft("compile", model, *flags, "-o", program, "--quiet", timeout=300)
    if not harness.check(f"{name}/compiles", status == 0, f"exit {status}: {err[-400:]}"):
        return False
    session = session_of(model)
    for number in range(REQUESTS):
        lengths = families.lengths(family, number)
        label = ", ".join(f"{dim} {length}" for dim, length in lengths.items())
        inputs = families.arrays(family, lengths, number)
        check_request(f"{name}/{label}", program, session, folder, inputs, family.tolerance)
    return True


def check_export(model, folder):
    name, program, family = model.stem, folder / model.stem, family_of(model)
    dims = [f"--dim={dim}<={bound}" for dim, bound in family.bounds.items()]
    if check_requests(name, model, dims, program, folder):
        check_bounds(name, program, family, folder)


def check_sliced(model, dim, folder):
    """On two ranks, of which each has a block of the dim of the inputs that have it: of a short request one has nothing."""
    family, schedule = family_of(model), folder / f"{dim}2.yaml"
    lines = ["weft: 1", "mesh: {dp: 2}", "dims:", *(f"  {name}: \"<={bound}\"" for name, bound in family.bounds.items()), "shard:"]
    lines += [f"  {name}: {{dp: {extents.index(dim)}}}" for name, (_, *extents) in family.inputs.items() if dim in extents]
    schedule.write_text("\n".join(lines) + "\n")
    name = f"{model.stem}/{dim} sliced"
    check_requests(name, model, ["--schedule", schedule], folder / "sliced", folder)
    if model.stem == SLICED and dim == "batch":
        _, out, _ = harness.weft("explain", model, "--schedule", schedule)
        collectives = len(re.findall("^  .*(AllGather|AllReduce|AllToAll|ReduceScatter) over", out, re.MULTILINE))
        harness.check(f"{name}/collectives", collectives <= SLICED_COLLECTIVES, f"{collectives}:\n{out[:1500]}")


def pinned(model, folder):
    """The model at one shape, with what ONNX Runtime computes from one request of it."""
    family = family_of(model)
    inputs = families.arrays(family, families.example(family), 0)
    data = folder / model.stem
    data.mkdir()
    for index, value in enumerate(inputs.values()):
        np.save(data / f"input_{index}.npy", value)
    for index, value in enumerate(session_of(model).run(None, inputs)):
        np.save(data / f"output_{index}.npy", value)
    return Case(f"{model.stem}/pinned", model, data, f"--tolerance={family.tolerance}")


def check_all(models):
    folder = harness.scratch("exports/pinned")
    report_complete(verify_many([pinned(model, folder) for model in models], folder))
    for model in models:
        check_memory(model, family_of(model), harness.scratch(f"exports/{model.stem}"))
        check_export(model, harness.scratch(f"exports/{model.stem}"))
        for dim in ("batch", "seq"):
            if dim in family_of(model).bounds:
                check_sliced(model, dim, harness.scratch(f"exports/{model.stem}"))


def main():
    if harness.FULL:
        folder = exported_anew(EXPORTS / "make.py", "requirements.txt", EXPORTS, list(families.FAMILIES))
        check_all(sorted(folder.glob("*.onnx")))
        return
    for model in sorted(EXPORTS.glob("*.onnx")):
        if model.stem in DEFAULT:
            check_export(model, harness.scratch(f"exports/{model.stem}"))
        if model.stem == SLICED:
            check_sliced(model, "batch", harness.scratch(f"exports/{model.stem}"))


if __name__ == "__main__":
    harness.need_weft()
    main()
