# test: slow
"""`adafactor`: fifty steps against PyTorch's algorithm in NumPy, in two pieces, and over ranks, with what it keeps sliced;
in `full` also with the batch, and parameters, sliced."""

import harness
import numpy as np
import onnx
from onnx import helper, numpy_helper
from training_runs_check import losses, states, train, write_data

STEPS, BROKEN_OFF, BATCH = 50, 30, 8
RATE, DECAY, BETA2_DECAY, D = 0.05, 0.1, -0.8, 1.0
TRAIN = f"""train:
  inputs: {{labels: "int64[8]"}}
  loss: {{cross_entropy: {{scores: scores, labels: labels}}}}
  optimizer: {{adafactor: {{rate: {RATE}, weight_decay: {DECAY}}}}}
"""
DATA = "x: {dp: 0}, labels: {dp: 0}"
SPLITS = {
    "data_parallel": f"mesh: {{dp: 2}}\nshard: {{{DATA}}}\n",
    "sliced_states": f'mesh: {{dp: 2}}\nshard: {{{DATA}, "*.row": {{dp: 0}}, "*.column": {{dp: 1}}, "*.variance": {{dp: 0}}}}\n',
    "sliced_parameters": f'mesh: {{dp: 2}}\nshard: {{{DATA}, "w{{i}}": {{dp: 0}}, "w{{i}}.use": {{dp: R}}}}\n',
    "tensor_parallel": "mesh: {tp: 2}\nshard: {w1: {tp: 1}, b1: {tp: 0}, w2: {tp: 0}}\n",
}


def make_model(file):
    rng = np.random.default_rng(5)
    weights = {name: (rng.standard_normal(shape) / 2).astype(np.float32)
               for name, shape in (("w1", (4, 16)), ("b1", (16,)), ("w2", (16, 4)))}
    nodes = [helper.make_node("MatMul", ["x", "w1"], ["h1"]), helper.make_node("Add", ["h1", "b1"], ["h2"]),
             helper.make_node("Tanh", ["h2"], ["h"]), helper.make_node("MatMul", ["h", "w2"], ["scores"])]
    ports = [helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, dims) for name, dims in (("x", [8, 4]), ("scores", [8, 4]))]
    graph = helper.make_graph(nodes, "net", ports[:1], ports[1:], [numpy_helper.from_array(w, n) for n, w in weights.items()])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10), file)
    return {name: weight.astype(np.float64) for name, weight in weights.items()}


def gradients(weights, x, labels):
    h = np.tanh(x @ weights["w1"] + weights["b1"])
    scores = h @ weights["w2"]
    odds = np.exp(scores - scores.max(1, keepdims=True))
    odds /= odds.sum(1, keepdims=True)
    rows = np.arange(len(labels))
    loss = -np.log(odds[rows, labels]).mean()
    odds[rows, labels] -= 1
    by_scores = odds / len(labels)
    by_h = by_scores @ weights["w2"].T * (1 - h * h)
    return loss, {"w1": x.T @ by_h, "b1": by_h.sum(0), "w2": h.T @ by_scores}


def root_mean_square(values):
    return np.sqrt((values * values).mean())


def adafactor(weight, gradient, kept, step):
    """torch/optim/_adafactor.py of PyTorch 2.15, for one tensor."""
    least, least_size = float(np.finfo(np.float32).eps), 1e-3
    part = step ** BETA2_DECAY
    far = max(least_size, root_mean_square(weight)) * min(RATE, step ** -0.5)
    weight = weight * (1 - RATE * DECAY)
    square = gradient * gradient
    if gradient.ndim > 1:
        kept["row"] = kept.get("row", 0) + part * (square.mean(-1, keepdims=True) - kept.get("row", 0))
        kept["column"] = kept.get("column", 0) + part * (square.mean(-2, keepdims=True) - kept.get("column", 0))
        variance = kept["row"] * kept["column"] / max(kept["row"].mean(), least)
    else:
        kept["variance"] = variance = kept.get("variance", 0) + part * (square - kept.get("variance", 0))
    update = gradient / np.sqrt(np.maximum(variance, least * least))
    return weight - far / max(1.0, root_mean_square(update) / D) * update


def reference(folder, weights):
    x, labels = np.load(folder / "x.npy").astype(np.float64), np.load(folder / "labels.npy")
    kept, found = {name: {} for name in weights}, []
    for step in range(STEPS):
        begin = step % (len(x) // BATCH) * BATCH
        loss, by = gradients(weights, x[begin:begin + BATCH], labels[begin:begin + BATCH])
        weights = {name: adafactor(weights[name], by[name], kept[name], step + 1) for name in weights}
        found.append(loss)
    return np.array(found), weights, kept


def build(folder, name, split=""):
    (folder / f"{name}.yaml").write_text("weft: 1\n" + split + TRAIN)
    status, _, err = harness.weft("compile", folder / "net.onnx", "--schedule", folder / f"{name}.yaml", "-o", folder / name)
    return folder / name if harness.check(f"{name}/compiles", status == 0, err[-300:]) else None


def check_steps(folder, program, weights):
    wanted, last, kept = reference(folder, weights)
    run = folder / "whole"
    status, _, err = train(folder, program, "--steps", STEPS, "--checkpoint", run, "--log", folder / "whole.jsonl")
    if not harness.check("one/runs", status == 0, f"exit {status}: {err[-300:]}"):
        return None
    found = losses(folder / "whole.jsonl")
    error = np.abs(found / wanted - 1).max()
    harness.check("one/losses of PyTorch's algorithm", error < 1e-5 and found[-1] < found[0], (error, found))
    place = run / f"step-{STEPS:06}"
    arrays = {name: last[name] for name in last} | {f"{name}.{s}": kept[name][s] for name in kept for s in kept[name]}
    for name, array in arrays.items():
        value = np.load(place / f"{name}.npy")
        error = harness.relative_error(value, array)
        harness.check(f"one/{name} after {STEPS} steps", value.shape == array.shape and error < 1e-5, (value.shape, error))
    return found


def check_pieces(folder, program):
    place = folder / "pieces"
    train(folder, program, "--steps", BROKEN_OFF, "--checkpoint", place, "--log", folder / "pieces.jsonl")
    train(folder, program, "--steps", STEPS, "--checkpoint", place, "--log", folder / "pieces.jsonl", "--resume", place)
    last = f"step-{STEPS:06}"
    harness.check("resume/bits of a run without a break", states(place / last) == states(folder / "whole" / last))


def check_split(folder, name, split, wanted):
    program = build(folder, name, split)
    if not program:
        return
    status, _, err = train(folder, program, "--steps", STEPS, "--log", folder / f"{name}.jsonl")
    if harness.check(f"{name}/runs", status == 0, f"exit {status}: {err[-300:]}"):
        error = np.abs(losses(folder / f"{name}.jsonl") / wanted - 1).max()
        harness.check(f"{name}/losses of one rank", error < 2e-5, error)
    begin = folder / "pieces" / f"step-{BROKEN_OFF:06}"
    status, _, err = train(folder, program, "--steps", STEPS, "--log", folder / f"{name}.jsonl", "--resume", begin)
    if harness.check(f"{name}/goes on from one rank's checkpoint", status == 0, f"exit {status}: {err[-300:]}"):
        error = np.abs(losses(folder / f"{name}.jsonl")[-1] / wanted[-1] - 1)
        harness.check(f"{name}/and gets to the same loss", error < 2e-5, error)


if __name__ == "__main__":
    harness.need_weft()
    FOLDER = harness.scratch("training_adafactor")
    write_data(FOLDER)
    WEIGHTS = make_model(FOLDER / "net.onnx")
    PROGRAM = build(FOLDER, "one")
    WANTED = check_steps(FOLDER, PROGRAM, WEIGHTS) if PROGRAM else None
    if WANTED is not None:
        check_pieces(FOLDER, PROGRAM)
        for NAME in SPLITS if harness.FULL else ("sliced_states", "tensor_parallel"):
            check_split(FOLDER, NAME, SPLITS[NAME], WANTED)
