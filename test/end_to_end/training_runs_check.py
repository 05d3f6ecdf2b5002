# test: slow
"""Executables that train: data, log, checkpoints, going on from one, several ranks, and what they refuse. Some of the
schedules by default, all in `full`."""

import collections
import json
import re
import subprocess
import sys
import time

import harness
import numpy as np
import onnx
from onnx import helper, numpy_helper

MODEL = """<ir_version: 10, opset_import: ["" : 20]>
net (float[8, 4] x) => (float[8, 3] scores)
<float[4, 16] w1 = random(1, 0.5), float[16] b1 = random(2, 0.1), float[16, 3] w2 = random(3, 0.5)>
{
  h1 = MatMul(x, w1)
  h2 = Add(h1, b1)
  h = Relu(h2)
  scores = MatMul(h, w2)
}
"""
TRAIN = """train:
  inputs: {labels: "int64[8]"}
  loss: {cross_entropy: {scores: scores, labels: labels}}
  optimizer: {adamw: {rate: 1e-2}}
  rate: {decay: cosine, warmup: 5, steps: 40, final: 0.1}
  clip: {norm: 1.0}
"""
SPLITS = {
    "data_parallel": "mesh: {dp: 2}\nshard: {x: {dp: 0}, labels: {dp: 0}}\n",
    "sliced_states": 'mesh: {dp: 4}\nshard: {x: {dp: 0}, labels: {dp: 0}, "*.m": {dp: 0}, "*.v": {dp: 0}}\n',
    "sliced_parameters": 'mesh: {dp: 2}\nshard: {x: {dp: 0}, labels: {dp: 0}, "w{i}": {dp: 0}, "w{i}.use": {dp: R}}\n',
    "tensor_parallel": "mesh: {dp: 2, tp: 2}\nshard: {x: {dp: 0}, labels: {dp: 0}, w1: {tp: 1}, b1: {tp: 0}, w2: {tp: 0}}\n",
}
ACCUMULATED = {
    "micro_batches": ("", 4),
    "micro_batches_of_slices": (SPLITS["data_parallel"], 2),
    "micro_batches_of_sliced_parameters": (SPLITS["sliced_parameters"], 4),
    "micro_batches_of_tensor_parallel": (SPLITS["tensor_parallel"], 2),
    "micro_batches_computed_again": (SPLITS["sliced_parameters"], "2\n  recompute: all"),
}
METRICS = "  metrics: {accuracy: {accuracy: {scores: scores, labels: labels}}, entropy: {cross_entropy: {scores: scores, labels: labels}}}\n"
SPLITS["beside"] = SPLITS["data_parallel"] + 'transform: [{overlap: {ops: ["*.grad.sum"]}}]\n'
SPLITS["buckets"] = SPLITS["data_parallel"] + """transform:
  - fuse: {ops: ["*.grad.sum*"], into: sums, bucket: 200}
  - overlap: {ops: ["sums.*"]}
"""
# Two losses, of which one divides by how many labels count: a sum of the batch alone, in a bucket of its own.
ACCUMULATED["micro_batches_of_buckets"] = (SPLITS["buckets"], 2)
SPLITS["buckets_of_slices"] = SPLITS["sliced_states"] + """transform:
  - fuse: {ops: ["*.grad.scatter*", "*.grad.sum*"], into: gradients, bucket: 300}
  - fuse: {ops: ["*.squares.sum"], into: norm, bucket: 1KiB}
  - fuse: {ops: ["*.next.gather"], into: parameters, bucket: 1KiB}
"""
SPLITS["gathered_ahead"] = SPLITS["sliced_parameters"] + 'transform: [{overlap: {ops: ["w*.gather"]}}]\n'
# The training mode: batch norms normalize by the batch, and dropout drops another half in each step.
NORMED = """<ir_version: 10, opset_import: ["" : 20]>
net (float[8, 4] x) => (float[8, 3] scores)
<float[4, 16] w1 = random(1, 0.5), float[16] scale = random(2, 1.0), float[16] shift = random(3, 0.1),
 float[16] mean = random(4, 0.1), float[16] variance = random(5, 0.1), float[16, 3] w2 = random(6, 0.5), float ratio = {0.5}>
{
  h1 = MatMul(x, w1)
  h2 = BatchNormalization(h1, scale, shift, mean, variance)
  h3 = Relu(h2)
  h = Dropout(h3, ratio)
  scores = MatMul(h, w2)
}
"""
# The cases of the usual set.
USUAL_SPLITS = ("tensor_parallel", "buckets_of_slices")
USUAL_ACCUMULATED = ("micro_batches_computed_again", "micro_batches_of_buckets")
USUAL_SAMPLES = ("gpt2", "gpt2_zero3", "gpt2_dp2_tp2_pp2")
USUAL_RECOMPUTED = ("dropout",)
STEPS, BROKEN_OFF = 40, 25
SAMPLES = harness.ROOT / "samples" / "training"
SMALL_GPT2 = ["--layers", "2", "--width", "32", "--heads", "2", "--vocab", "256", "--context", "64"]


def write_data(folder):
    rng = np.random.default_rng(1)
    x = rng.standard_normal((100, 4)).astype(np.float32)
    np.save(folder / "x.npy", x)
    np.save(folder / "labels.npy", (x @ rng.standard_normal((4, 3))).argmax(1).astype(np.int32))
    np.save(folder / "few.npy", x[:7])
    np.save(folder / "few_labels.npy", np.zeros(7, np.int64))


def build(folder, name, split="", text=MODEL, train_text=TRAIN):
    model, schedule = folder / ("net.onnxtxt" if text is MODEL else f"{name}.onnxtxt"), folder / f"{name}.yaml"
    model.write_text(text)
    schedule.write_text("weft: 1\n" + split + train_text)
    status, _, err = harness.weft("compile", model, "--schedule", schedule, "-o", folder / name)
    return folder / name if harness.check(f"{name}/compiles", status == 0, err[-300:]) else None


def train(folder, program, *flags, x="x.npy", labels="labels.npy"):
    data = ["--data", f"x={folder / x}", "--data", f"labels={folder / labels}"]
    return harness.run([program, *data, *flags])


def losses(log):
    return np.array([json.loads(line)["loss"] for line in log.read_text().splitlines()])


def states(folder):
    return {file.name: file.read_bytes() for file in sorted(folder.glob("*.npy"))}


def check_run(folder, program):
    """One run, and the same in two pieces."""
    whole, pieces = folder / "whole", folder / "pieces"
    flags = ["--steps", STEPS, "--shuffle", "7"]
    status, out, err = train(folder, program, *flags, "--log", folder / "whole.jsonl", "--checkpoint", whole, "--every", 10,
                             "--keep", 2, "--json")
    if not harness.check("runs", status == 0, f"exit {status}: {err[-300:]}"):
        return None
    found = losses(folder / "whole.jsonl")
    harness.check("log/has every step", len(found) == STEPS, len(found))
    harness.check("log/loss falls", found[-5:].mean() < 0.8 * found[:5].mean(), found)
    rates = [json.loads(line)["rate"] for line in (folder / "whole.jsonl").read_text().splitlines()]
    harness.check("rate/warms up and decays", rates[4] == max(rates) and abs(rates[-1] / rates[4] - 0.1) < 1e-3, rates)
    harness.check("json/says the last loss", abs(json.loads(out)["loss"] - found[-1]) < 1e-6, out)
    kept = sorted(place.name for place in whole.iterdir() if place.is_dir())
    harness.check("checkpoints/only the newest stay", kept == ["step-000030", "step-000040"], kept)
    train(folder, program, "--steps", BROKEN_OFF, "--shuffle", "7", "--log", folder / "pieces.jsonl", "--checkpoint", pieces)
    train(folder, program, *flags, "--log", folder / "pieces.jsonl", "--checkpoint", pieces, "--resume", pieces)
    same = states(whole / "step-000040") == states(pieces / "step-000040")
    harness.check("resume/bits of a run without a break", same and np.array_equal(found, losses(folder / "pieces.jsonl")))
    return found


def check_split(folder, name, split, wanted, more=""):
    """Several ranks take the same steps, and go on from what one rank has left."""
    program = build(folder, name, split, train_text=TRAIN + more)
    if not program:
        return
    flags = ["--steps", STEPS, "--shuffle", "7", "--log", folder / f"{name}.jsonl"]
    status, _, err = train(folder, program, *flags)
    if harness.check(f"{name}/runs", status == 0, f"exit {status}: {err[-300:]}"):
        error = np.abs(losses(folder / f"{name}.jsonl") / wanted - 1).max()
        harness.check(f"{name}/losses of one rank", error < 2e-5, error)
    status, _, err = train(folder, program, *flags, "--resume", folder / "pieces" / f"step-{BROKEN_OFF:06}")
    if harness.check(f"{name}/goes on from one rank's checkpoint", status == 0, f"exit {status}: {err[-300:]}"):
        error = np.abs(losses(folder / f"{name}.jsonl")[-1] / wanted[-1] - 1)
        harness.check(f"{name}/and gets to the same loss", error < 2e-5, error)


def check_group_rate(folder):
    """A multiple of the rate for some parameters: for all of them it is another rate."""
    sgd = TRAIN[:TRAIN.index("  optimizer")] + "  optimizer: {sgd: {rate: RATE}}\n"
    whole = build(folder, "half", "", train_text=sgd.replace("RATE", "0.05"))
    grouped = build(folder, "grouped", "", train_text=sgd.replace("RATE", "0.1") + '  groups: [{match: "*", rate: x0.5}]\n')
    if whole and grouped:
        for name, program in (("half", whole), ("grouped", grouped)):
            train(folder, program, "--steps", 10, "--log", folder / f"{name}.jsonl")
        same = np.array_equal(losses(folder / "half.jsonl"), losses(folder / "grouped.jsonl"))
        harness.check("groups/half of the rate", same and len(losses(folder / "half.jsonl")) == 10)


def check_precision(folder, wanted):
    """Operands of products are rounded; parameters, sums and the optimizer are not."""
    program = build(folder, "bf16", "precision: bf16\n")
    if not program:
        return
    status, _, err = train(folder, program, "--steps", STEPS, "--shuffle", "7", "--log", folder / "bf16.jsonl")
    if harness.check("bf16/runs", status == 0, f"exit {status}: {err[-300:]}"):
        error = np.abs(losses(folder / "bf16.jsonl") / wanted - 1).max()
        harness.check("bf16/losses near those of 32 bits", 1e-6 < error < 2e-2, error)


def parameters(folder, *names):
    return [np.load(folder / f"{name}.npy").astype(np.float64) for name in names]


def cross_entropy(scores, labels):
    return (np.log(np.exp(scores).sum(1)) - scores[np.arange(len(labels)), labels]).mean()


def forward(folder, x, labels):
    """Mean cross entropy and accuracy of a checkpoint's parameters."""
    w1, b1, w2 = parameters(folder, "w1", "b1", "w2")
    scores = np.maximum(x @ w1 + b1, 0) @ w2
    return cross_entropy(scores, labels), (scores.argmax(1) == labels).mean()


def check_evaluated_mode(folder, program, place):
    """After the last step of a run: normalized by the final statistics, with nothing dropped."""
    x, labels = np.load(folder / "x.npy"), np.load(folder / "labels.npy")
    data = ["--eval-data", f"x={folder / 'x.npy'}", "--eval-data", f"labels={folder / 'labels.npy'}"]
    status, _, err = train(folder, program, "--steps", 12, "--shuffle", "--resume", place, "--log", folder / "normed_eval.jsonl", *data)
    if not harness.check("mode/evaluates", status == 0, f"exit {status}: {err[-300:]}"):
        return
    w1, scale, shift, mean, variance, w2 = parameters(place / "step-000012", "w1", "scale", "shift", "mean", "variance", "w2")
    h = np.maximum((x @ w1 - mean) / np.sqrt(variance + 1e-5) * scale + shift, 0)
    found = json.loads((folder / "normed_eval.jsonl").read_text().splitlines()[-1])["eval_loss"]
    error = abs(found / cross_entropy(h @ w2, labels) - 1)
    harness.check("mode/evaluates with running statistics and all elements", error < 1e-5, error)


def check_evaluation(folder, name, split, more, wanted):
    """Figures of an evaluation use the parameters after the step, and the training continues as without it."""
    program = build(folder, name, split, train_text=TRAIN + METRICS + more)
    if not program:
        return
    held_out = ["--eval-data", f"x={folder / 'x.npy'}", "--eval-data", f"labels={folder / 'labels.npy'}", "--eval-every", 20]
    log, run = folder / f"{name}.jsonl", folder / f"{name}_run"
    status, out, err = train(folder, program, "--steps", STEPS, "--shuffle", "7", "--log", log, "--checkpoint", run, "--every", 20,
                             "--json", *held_out)
    if not harness.check(f"{name}/runs", status == 0, f"exit {status}: {err[-300:]}"):
        return
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    steps, means = [line for line in lines if "loss" in line], [line for line in lines if "eval_loss" in line]
    error = np.abs(np.array([line["loss"] for line in steps]) / wanted - 1).max()
    harness.check(f"{name}/losses of a training without it", error < 2e-5, error)
    harness.check(f"{name}/a metric that is the loss", all(abs(line["entropy"] - line["loss"]) < 1e-6 for line in steps))
    x, labels = np.load(folder / "x.npy"), np.load(folder / "labels.npy")
    harness.check(f"{name}/evaluates twice", [(line["step"], line["eval_samples"]) for line in means] == [(20, len(x)), (40, len(x))], means)
    for line in means:
        loss, accuracy = forward(run / f"step-{line['step']:06}", x, labels)
        harness.check(f"{name}/figures after step {line['step']}",
                      abs(line["eval_loss"] - loss) < 1e-5 and abs(line["eval_accuracy"] - accuracy) < 1e-6, (line, loss, accuracy))
    harness.check(f"{name}/json has the last figures", json.loads(out).get("eval_loss") == means[-1]["eval_loss"], out)


def check_mode(folder):
    """Statistics of the batch of all ranks, and draws that depend on the step and the element alone."""
    # The first steps change next to nothing: what their losses differ by are the draws.
    train_text = TRAIN.replace("warmup: 5, steps: 40", "warmup: 1000, steps: 2000") + "  mode: train\n"
    one = build(folder, "normed", "", NORMED, train_text)
    two = build(folder, "normed_dp2", SPLITS["data_parallel"], NORMED, train_text)
    if not (one and two):
        return
    whole, pieces = folder / "normed_whole", folder / "normed_pieces"
    for place, program, steps in ((whole, one, (12,)), (pieces, one, (5, 12)), (folder / "normed_ranks", two, (12,))):
        for step in steps:
            more = ["--resume", place] if step != steps[0] else []
            train(folder, program, "--steps", step, "--shuffle", "--checkpoint", place, "--log", f"{place}.jsonl", *more)
    same = states(whole / "step-000012") == states(pieces / "step-000012")
    harness.check("mode/going on draws what a run without a break does", same)
    wanted, found = losses(folder / "normed_whole.jsonl"), losses(folder / "normed_ranks.jsonl")
    error = np.abs(found / wanted - 1).max()
    harness.check("mode/two ranks have the losses of one", error < 2e-5, error)
    for name in ("mean", "variance"):
        error = harness.relative_error(*(np.load(place / "step-000012" / f"{name}.npy") for place in (folder / "normed_ranks", whole)))
        harness.check(f"mode/two ranks have the running {name} of one", error < 2e-5, error)
    check_new_draws(folder, one)
    check_evaluated_mode(folder, one, whole)
    check_evaluated_mode(folder, two, folder / "normed_ranks")


def check_new_draws(folder, program):
    """Runs one batch twice."""
    for name in ("x", "labels"):
        np.save(folder / f"first_{name}.npy", np.load(folder / f"{name}.npy")[:8])
    train(folder, program, "--steps", 2, "--log", folder / "draws.jsonl", x="first_x.npy", labels="first_labels.npy")
    first, second = losses(folder / "draws.jsonl")
    harness.check("mode/each step draws anew", abs(second - first) > 1e-2, f"{first}, {second}")


def check_average(folder, program):
    """After each step the average moves a fifth of the way from its previous value to the parameter."""
    run = folder / "average_run"
    train(folder, program, "--steps", 4, "--checkpoint", run, "--every", 1)
    for step in (2, 3, 4):
        [before], [now, value] = parameters(run / f"step-{step - 1:06}", "w1.average"), parameters(run / f"step-{step:06}", "w1.average", "w1")
        error = harness.relative_error(now, before + 0.2 * (value - before))
        harness.check(f"average/after step {step}", error < 1e-6 and not np.array_equal(now, value), error)


def check_infinite(folder):
    """A loss is computed before the update: parameters that this makes infinite are in no checkpoint."""
    train_text = TRAIN.replace("rate: 1e-2", "rate: 1e38, weight_decay: 1000")
    (folder / "infinite.yaml").write_text("weft: 1\n" + train_text.replace("warmup: 5", "warmup: 0"))
    harness.weft("compile", folder / "net.onnxtxt", "--schedule", folder / "infinite.yaml", "-o", folder / "infinite")
    status, _, err = train(folder, folder / "infinite", "--steps", "1", "--checkpoint", folder / "infinite_run")
    left = [place.name for place in (folder / "infinite_run").glob("step-*") if not place.name.endswith(".part")]
    harness.check("refused/states that are not finite", status == 1 and "is not finite any more" in err and not left,
                  f"exit {status}: {left} {err[-300:]}")


def check_collectives(folder, model):
    """Per layer, with one of each around them: those of the embedding and of the product with it."""
    status, out, err = harness.weft("explain", model, "--schedule", SAMPLES / "gpt2_tp2_sp.yaml", "--json")
    if harness.check("samples/gpt2_tp2_sp is explained", status == 0, err[-300:]):
        found = collections.Counter(each["what"].split()[0] for each in json.loads(out)["collectives"])
        wanted = {kind: 4 * 2 + 1 for kind in ("AllGather", "ReduceScatter")}
        harness.check("samples/gpt2_tp2_sp has four gathers and four scatters a layer",
                      {kind: found[kind] for kind in wanted} == wanted, found)


def check_samples(folder):
    """The schedules of samples/training: what the README says of them, at a small size."""
    model, tokens = harness.make_gpt2(folder / "gpt2.onnx", *SMALL_GPT2), folder / "tokens.npy"
    status, _, err = harness.run([sys.executable, SAMPLES / "bytes.py", tokens, harness.ROOT / "README.md"])
    harness.check("samples/bytes become tokens", status == 0 and np.load(tokens).ndim == 1, err[-300:])
    found = {}
    for schedule in sorted(SAMPLES.glob("gpt2*.yaml")):
        name = schedule.stem
        if not harness.FULL and name not in USUAL_SAMPLES:
            continue
        status, _, err = harness.weft("compile", model, "--schedule", schedule, "-o", folder / name)
        if status == 0:
            data = ["--data", f"input_ids={tokens}", "--shuffle", "--steps", "8", "--log", folder / f"{name}.jsonl"]
            status, _, err = harness.run([folder / name, *data])
        if harness.check(f"samples/{name} runs", status == 0, f"exit {status}: {err[-300:]}"):
            found[name] = losses(folder / f"{name}.jsonl")
    check_collectives(folder, model)
    one = found.pop("gpt2")
    harness.check("samples/gpt2 learns", one[-1] < one[0], one)
    for name, several in found.items():
        error = np.abs(several / one - 1).max()
        harness.check(f"samples/{name} has the losses of one rank", error < 2e-5, error)


def memory_of(model, schedule):
    """Bytes that a rank has of its own."""
    status, out, err = harness.weft("explain", model, "--schedule", schedule)
    found = re.search(r"^memory of .*?: ([\d.]+) (bytes|KiB|MiB) of its own", out, re.MULTILINE)
    if not harness.check(f"{schedule.stem}/explains its memory", status == 0 and found, err[-300:]):
        return None
    return float(found[1]) * {"bytes": 1, "KiB": 1 << 10, "MiB": 1 << 20}[found[2]]


def check_recompute(folder):
    """Recomputation takes less memory and changes no loss, on one rank and on two; dropouts draw the same numbers."""
    model = folder / "gpt2.onnx"
    text = MODEL.replace("h = Relu(h2)", "g = Gelu(h2) h = Dropout(g, half, yes)")
    (folder / "dropout.onnxtxt").write_text(text.replace("random(3, 0.5)>", "random(3, 0.5), float half = {0.5}, bool yes = {1}>"))
    cases = {name: (model, (SAMPLES / f"{name}.yaml").read_text(), "h.{l}.mlp.residual", [f"input_ids={folder / 'tokens.npy'}"])
             for name in ("gpt2", "gpt2_zero3", "gpt2_tp2")}
    cases["dropout"] = (folder / "dropout.onnxtxt", "weft: 1\n" + TRAIN, "h1",
                        [f"x={folder / 'x.npy'}", f"labels={folder / 'labels.npy'}"])
    for name, (source, text, keep, data) in cases.items():
        if not harness.FULL and name not in USUAL_RECOMPUTED:
            continue
        found, memory = {}, {}
        for what, line in {"none": "", "all": "  recompute: all\n", "keep": f'  recompute: {{keep: ["{keep}"]}}\n'}.items():
            schedule = folder / f"{name}_{what}.yaml"
            schedule.write_text(text + line)
            status, _, err = harness.weft("compile", source, "--schedule", schedule, "-o", folder / f"{name}_{what}")
            if status == 0:
                flags = [flag for each in data for flag in ("--data", each)]
                status, _, err = harness.run([folder / f"{name}_{what}", *flags, "--steps", "8", "--log", folder / f"{name}_{what}.jsonl"])
            if harness.check(f"recompute/{name} {what} runs", status == 0, f"exit {status}: {err[-300:]}"):
                found[what], memory[what] = losses(folder / f"{name}_{what}.jsonl"), memory_of(source, schedule)
        if len(found) < 3:
            continue
        error = max(np.abs(found[what] / found["none"] - 1).max() for what in ("all", "keep"))
        harness.check(f"recompute/{name} has the losses without it", error < 1e-6, error)
        if source == model:
            harness.check(f"recompute/{name} takes less memory", memory["keep"] < memory["all"] < 0.7 * memory["none"], memory)


def check_export(folder):
    """The file that was trained, with the values of a checkpoint in place of its own, inside or beside it."""
    rng = np.random.default_rng(2)
    sizes = {"w1": (4, 16), "b1": (16,), "w2": (16, 3)}
    weights = [numpy_helper.from_array(rng.standard_normal(shape).astype(np.float32), name) for name, shape in sizes.items()]
    nodes = [helper.make_node("MatMul", ["x", "w1"], ["h1"]), helper.make_node("Add", ["h1", "b1"], ["h2"]),
             helper.make_node("Relu", ["h2"], ["h"]), helper.make_node("MatMul", ["h", "w2"], ["scores"])]
    ports = [helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, dims) for name, dims in (("x", [8, 4]), ("scores", [8, 3]))]
    model = helper.make_model(helper.make_graph(nodes, "net", ports[:1], ports[1:], weights),
                              opset_imports=[helper.make_opsetid("", 20)], ir_version=10, producer_name="someone")
    wanted = {name: np.load(folder / "pieces" / f"step-{STEPS:06}" / f"{name}.npy") for name in sizes}
    for name, outside in (("inside", False), ("outside", True)):
        (folder / name).mkdir()
        file, out = folder / name / "net.onnx", folder / f"{name}_trained" / "trained.onnx"
        onnx.save(model, file, save_as_external_data=outside, size_threshold=0, location="net.bin")
        status, _, err = harness.weft("export", file, folder / "pieces", "-o", out)
        if not harness.check(f"export/{name}", status == 0, f"exit {status}: {err[-300:]}"):
            continue
        trained = onnx.load(out)
        found = {each.name: numpy_helper.to_array(each) for each in trained.graph.initializer}
        harness.check(f"export/{name} has what was trained", all(np.array_equal(found[n], wanted[n]) for n in sizes))
        del model.graph.initializer[:], trained.graph.initializer[:]
        harness.check(f"export/{name} changes nothing else", model.SerializeToString() == trained.SerializeToString())
        model.graph.initializer.extend(weights)
    status, _, err = harness.weft("export", folder / "inside" / "net.onnx", folder / "evaluation_run", "--average", "-o",
                                  folder / "average.onnx")
    if harness.check("export/averages", status == 0, f"exit {status}: {err[-300:]}"):
        found = {each.name: numpy_helper.to_array(each) for each in onnx.load(folder / "average.onnx").graph.initializer}
        mean = np.load(folder / "evaluation_run" / "step-000040" / "w1.average.npy")
        harness.check("export/averages are those of the checkpoint", np.array_equal(found["w1"], mean))
    status, _, err = harness.weft("export", folder / "inside" / "net.onnx", folder / "pieces", "--average", "-o", folder / "no.onnx")
    harness.check("export/no averages", status == 1 and "no average" in err, f"exit {status}: {err[-200:]}")
    status, _, err = harness.weft("export", folder / "net.onnxtxt", folder / "pieces", "-o", folder / "no.onnx")
    harness.check("export/text is refused", status == 3, f"exit {status}: {err[-200:]}")
    status, _, err = harness.weft("export", folder / "inside" / "net.onnx", folder, "-o", folder / "no.onnx")
    harness.check("export/no checkpoint", status == 1 and "state.json" in err, f"exit {status}: {err[-200:]}")


def check_damaged(folder, program, model):
    """A bit of a checkpoint that is another one than was written is found, whoever reads it."""
    run = folder / "damaged_run"
    for file in ("w1.npy", "w1.m.npy", "state.json"):
        train(folder, program, "--steps", 2, "--checkpoint", run)
        place = run / "step-000002" / file
        content = bytearray(place.read_bytes())
        content[len(content) // 2] ^= 1
        place.write_bytes(content)
        status, _, err = train(folder, program, "--steps", 3, "--resume", run)
        harness.check(f"damaged/{file} is not gone on from", status == 1 and file in err and "damaged" in err, f"exit {status}: {err[-300:]}")
        status, _, err = harness.weft("export", model, run, "-o", folder / "no.onnx")
        harness.check(f"damaged/{file} is not exported", status == 1 and file in err and "export-damaged" in err, f"exit {status}: {err[-300:]}")


def check_two_runs(folder, program):
    """One run at a time writes to a folder; one that was killed holds it no longer."""
    run = folder / "locked_run"
    data = ["--data", f"x={folder / 'x.npy'}", "--data", f"labels={folder / 'labels.npy'}", "--checkpoint", run]
    first = subprocess.Popen([program, *data, "--steps", "100000000"], stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    for _ in range(200):
        time.sleep(0.05)
        if run.exists():
            break
    time.sleep(0.2)
    status, _, err = harness.run([program, *data, "--steps", "1"])
    harness.check("two runs/the second is refused", status == 6 and "another run writes its checkpoints there" in err, f"exit {status}: {err[-300:]}")
    first.kill()
    first.wait()
    status, _, err = harness.run([program, *data, "--steps", "1"])
    harness.check("two runs/a killed one holds no lock", status == 0, f"exit {status}: {err[-300:]}")


def check_seed(folder, model):
    """Going on with other draws is said."""
    programs = [build(folder, f"seed{seed}", f"seed: {seed}\n", model) for seed in (1, 2)]
    if not all(programs):
        return
    train(folder, programs[0], "--steps", 1, "--checkpoint", folder / "seed_run")
    for program, is_said in zip(programs, (False, True), strict=True):
        status, _, err = train(folder, program, "--steps", 2, "--resume", folder / "seed_run")
        harness.check(f"seed/{program.name}", status == 0 and ("drew with the seed 1" in err) == is_said, f"exit {status}: {err[-300:]}")


def check_computed(folder):
    """A weight that the exporter computed from two parameters is trained itself, which is said."""
    model = onnx.load(folder / "inside" / "net.onnx")
    signature = "\n# inputs\n" + "".join(f"p_{name}: PARAMETER target='{name}'\n" for name in ("w1", "b1", "w2.g", "w2.v"))
    helper.set_model_props(model, {"pkg.torch.export.ExportedProgram.graph_signature": signature})
    info = model.graph.value_info.add(name="w2")
    info.metadata_props.add(key="pkg.onnxscript.optimizer.folded_from", value="['w2.v', 'w2.g']")
    onnx.save(model, folder / "computed.onnx")
    status, _, err = harness.weft("compile", folder / "computed.onnx", "--schedule", folder / "one.yaml", "--emit", "source", "-o", folder / "computed")
    harness.check("computed/is said", status == 0 and "[train-computed]" in err and "'w2.v', 'w2.g'" in err, f"exit {status}: {err[-300:]}")


def check_refusals(folder, program):
    cases = {
        "few samples": (1, "has 7 samples, a step takes 8", {"x": "few.npy", "labels": "few_labels.npy"}, []),
        "two numbers of samples": (1, "has 7 samples", {"labels": "few_labels.npy"}, []),
        "another order": (1, "give the same --shuffle", {}, ["--resume", folder / "pieces"]),
        "no checkpoint": (1, "no checkpoint", {}, ["--resume", folder]),
        "steps and epochs": (2, "give one of them", {}, ["--steps", "1", "--epochs", "1"]),
        "every without a checkpoint": (2, "--checkpoint DIR, which is missing", {}, ["--every", "2"]),
        "evaluations without samples": (2, "--eval-data NAME=FILE.npy, which is missing", {}, ["--eval-every", "2"]),
        "serve": (2, "either answers requests or trains", {}, ["--serve"]),
        "outputs": (2, "are in its --log", {}, ["--output-dir", folder]),
        "iterations": (2, "a training has --steps", {}, ["--iterations", "3"]),
    }
    for name, (code, text, files, flags) in cases.items():
        status, _, err = train(folder, program, *flags, **files)
        harness.check(f"refused/{name}", status == code and text in err, f"exit {status}: {err[-300:]}")
    bad = np.load(folder / "labels.npy")
    bad[3] = -1
    np.save(folder / "below.npy", bad)
    status, _, err = train(folder, program, "--steps", "1", labels="below.npy")
    harness.check("refused/a label below 0", status == 1 and "index -1 lies outside" in err, f"exit {status}: {err[-300:]}")
    later = folder / "later"
    (later / "step-000099").mkdir(parents=True)
    (later / "step-notes").mkdir()
    (later / "step-000099" / "state.json").write_text("{}")
    train(folder, program, "--steps", "3", "--checkpoint", later, "--every", "1", "--keep", "1")
    left = sorted(place.name for place in later.iterdir() if place.is_dir())
    harness.check("checkpoints/what was just written stays, and what is none", left == ["step-000003", "step-notes"], left)
    other = folder / "other"
    other.mkdir()
    for name, content in states(folder / "pieces" / f"step-{BROKEN_OFF:06}").items():
        if name != "w1.m.npy":
            (other / name).write_bytes(content)
    (other / "state.json").write_text((folder / "pieces" / f"step-{BROKEN_OFF:06}" / "state.json").read_text())
    status, _, err = train(folder, program, "--resume", other, "--shuffle", "7")
    harness.check("refused/a checkpoint of another optimizer", status == 1 and "it has no w1.m.npy" in err, err[-300:])
    status, _, err = harness.run([program, "--steps", "3"])
    harness.check("refused/no data", status == 2 and "--data NAME=FILE.npy" in err, err[-300:])


if __name__ == "__main__":
    harness.need_weft()
    FOLDER = harness.scratch("training_runs")
    write_data(FOLDER)
    PROGRAM = build(FOLDER, "one")
    WANTED = check_run(FOLDER, PROGRAM) if PROGRAM else None
    if WANTED is not None:
        for NAME in SPLITS if harness.FULL else USUAL_SPLITS:
            check_split(FOLDER, NAME, SPLITS[NAME], WANTED)
        for NAME in ACCUMULATED if harness.FULL else USUAL_ACCUMULATED:
            SPLIT, COUNT = ACCUMULATED[NAME]
            check_split(FOLDER, NAME, SPLIT, WANTED, f"  accumulate: {COUNT}\n")
        check_evaluation(FOLDER, "evaluation", "", "  average: {decay: 0.8}\n", WANTED)
        check_evaluation(FOLDER, "evaluation_in_parts", SPLITS["data_parallel"], "  accumulate: 2\n", WANTED)
        check_evaluation(FOLDER, "evaluation_beside", SPLITS["beside"], "  accumulate: 2\n", WANTED)
        check_average(FOLDER, FOLDER / "evaluation")
        check_export(FOLDER)
        check_mode(FOLDER)
        check_precision(FOLDER, WANTED)
        check_group_rate(FOLDER)
        check_infinite(FOLDER)
        check_samples(FOLDER)
        check_recompute(FOLDER)
        check_damaged(FOLDER, PROGRAM, FOLDER / "inside" / "net.onnx")
        check_two_runs(FOLDER, PROGRAM)
        check_seed(FOLDER, NORMED)
        check_computed(FOLDER)
        check_refusals(FOLDER, PROGRAM)
