# test: slow
"""The placements of samples/pipelines, in named orders and in a searched one. In micro-batches on several ranks they
compute the same as one rank without micro-batches, and train to the same losses and weights. In `full` they run on 2, 4
and 8 ranks, for inference and training; by default they are only planned."""

import dataclasses
import json
import re
import sys

import harness
import numpy as np

SAMPLES = harness.ROOT / "samples" / "pipelines"
BATCH, CONTEXT, VOCAB, PATCH, CLASSES, SAMPLE_COUNT, STEPS = 16, 16, 64, 48, 10, 64, 5
EVERYWHERE = ("search", "gpipe", "1f1b")  # orders of any placement
TOKENS = (CONTEXT,)


@dataclasses.dataclass
class Placement:
    kind: str  # of model
    data: dict  # by name: the shape of a sample of it, and below what its numbers are; 0: they are real
    orders: tuple = ()  # more than those of any placement
    ranks: tuple = (2, 4, 8)
    two: tuple = ()  # what stands for what on two ranks


PLACEMENTS = {
    "v": Placement("gpt", {"tokens": (TOKENS, VOCAB)}, two=("layer0.*\"], b: \"layer1.*\", c: \"layer2.*\", d: rest", "layer0.*\", \"layer1.*\"], b: rest")),
    "x": Placement("two_ways", {"tokens": ((2, CONTEXT), VOCAB), "labels_there": (TOKENS, VOCAB), "labels_back": (TOKENS, VOCAB)},
                   ("chimera", "dualpipe"), ranks=(4, 8)),
    "m": Placement("gpt", {"tokens": (TOKENS, VOCAB)}),
    "nn": Placement("translation", {"sources": (TOKENS, VOCAB), "targets": (TOKENS, VOCAB)}),
    "k": Placement("towers", {"patches": ((CONTEXT, PATCH), 0), "tokens": (TOKENS, VOCAB), "labels": ((), CLASSES)}),
    "mllm": Placement("pictures", {"patches": ((CONTEXT, PATCH), 0), "tokens": (TOKENS, VOCAB)}),
}
# Two stages a rank, as the orders of that name need them: in turn, and there and back.
TWICE = {"interleaved": (0, 1, 0, 1), "zb-v": (0, 1, 1, 0)}


def text_of(name):
    return (SAMPLES / f"{name}.yaml").read_text()


def on_ranks(name, ranks):
    """The sample's schedule for another number of ranks: two stages a rank, or each stage on two halves of the batch."""
    text, placement = text_of(name), PLACEMENTS[name]
    if ranks == 4:
        return text
    if ranks == 2:
        def half(match):
            return "ranks: " + str(sorted({int(rank) // 2 for rank in match[1].split(",")}))
        return re.sub(r"ranks: \[([\d, ]+)\]", half, text).replace("tp: 4", "tp: 2").replace(*(placement.two or ("", "")))

    def twice(match):
        return "ranks: " + str([rank for each in match[1].split(",") for rank in (2 * int(each), 2 * int(each) + 1)])
    text = re.sub(r"ranks: \[([\d, ]+)\]", twice, text)
    text = text.replace("mesh: {tp: 4}", "mesh: {dp: 2, tp: 4}").replace("mesh: {}", "mesh: {dp: 2}").replace("mesh: {tp: 1}", "mesh: {dp: 2}")
    sliced = ", ".join(f"{value}: {{dp: 0}}" for value in placement.data)
    return text.replace("shard: {", f"shard: {{{sliced}, ", 1) if "shard:" in text else text.replace("pipeline:", f"shard: {{{sliced}}}\npipeline:", 1)


def without_training(text):
    """The same pipeline for inference; labels are a training's."""
    return re.sub(r"labels\w*: \{dp: 0\}(, )?", "", text[:text.index("train:")]).replace(", }", "}")


def in_order(text, order):
    return text.replace("order: search", f"order: {order}")


def not_of_noise(text):
    """Adam takes a whole step where a gradient is rounding alone, in a direction of its own for each order of sums. Beside a
    larger epsilon such a step is small, and weights can be compared."""
    return text.replace("adamw: {rate: 1e-3}", "adamw: {rate: 1e-3, epsilon: 1e-5}")


def write_data(folder, data):
    rng = np.random.default_rng(4)
    for name, (shape, below) in data.items():
        shape = (SAMPLE_COUNT, *shape)
        array = rng.integers(0, below, shape) if below else rng.standard_normal(shape).astype(np.float32)
        np.save(folder / f"{name}.npy", array)


def train(folder, name, model, text, data):
    """(losses, weights by name) of a few steps, or None."""
    schedule, program = folder / f"{name}.yaml", folder / name
    schedule.write_text(not_of_noise(text))
    status, _, err = harness.weft("compile", model, "--schedule", schedule, "-o", program)
    if not harness.check(f"{name}/compiles", status == 0, f"exit {status}: {err[-400:]}"):
        return None
    given = [word for value in data for word in ("--data", f"{value}={folder / value}.npy")]
    run = folder / f"{name}_run"
    status, _, err = harness.run([program, *given, "--steps", STEPS, "--log", folder / f"{name}.jsonl", "--checkpoint", run])
    program.unlink()
    if not harness.check(f"{name}/trains", status == 0, f"exit {status}: {err[-400:]}"):
        return None
    losses = np.array([json.loads(line)["loss"] for line in (folder / f"{name}.jsonl").read_text().splitlines()])
    return losses, {file.name: np.load(file) for file in sorted((run / f"step-{STEPS:06}").glob("*.npy"))}


def check_training(folder, name, model, text, data, wanted):
    found = train(folder, name, model, text, data)
    if found is None:
        return
    error = np.abs(found[0] / wanted[0] - 1).max()
    harness.check(f"{name}/losses of one rank", len(found[0]) == STEPS and error < 2e-5, error)
    # A softmax does not change with a bias of all keys: its derivative is rounding alone.
    errors = {file: harness.relative_error(found[1][file], value) for file, value in wanted[1].items()
              if value.dtype.kind == "f" and ".key.bias." not in file}
    worst = max(errors, key=errors.get)
    harness.check(f"{name}/weights of one rank", found[1].keys() == wanted[1].keys() and errors[worst] < 1e-4, f"{worst}: {errors[worst]}")


def check_inference(folder, name, model, text):
    schedule = folder / f"{name}.yaml"
    schedule.write_text(text)
    status, out, err = harness.weft("verify", model, "--schedule", schedule)
    harness.check(f"{name}/computes what one rank does", status == 0, f"exit {status}: {(out + err)[-400:]}")


def check_plans(folder, name):
    """Both forms of the sample can be planned and proved."""
    model, text = folder / f"{PLACEMENTS[name].kind}.onnx", in_order(text_of(name), "gpipe")
    harness.run([sys.executable, SAMPLES / "make.py", PLACEMENTS[name].kind, model])
    for what, schedule in (("training", text), ("inference", without_training(text))):
        file = folder / f"{name}_{what}.yaml"
        file.write_text(schedule)
        status, _, err = harness.weft("explain", model, "--schedule", file)
        harness.check(f"{name}/{what} is planned", status == 0, f"exit {status}: {err[-400:]}")


def check_placement(folder, name):
    placement = PLACEMENTS[name]
    model, text = folder / f"{placement.kind}.onnx", text_of(name)
    status, _, err = harness.run([sys.executable, SAMPLES / "make.py", placement.kind, model])
    if not harness.check(f"{name}/is made", status == 0, err[-300:]):
        return
    harness.check(f"{name}/at most 25 lines", len(text.splitlines()) <= 25)
    write_data(folder, placement.data)
    one = "weft: 1\n" + text[text.index("dims:"):]
    wanted = train(folder, f"{name}_one", model, one, placement.data)
    if wanted is None:
        return
    for ranks in placement.ranks:
        for order in (*EVERYWHERE, "zb-h1", *placement.orders):
            text = in_order(on_ranks(name, ranks), order)
            check_training(folder, f"{name}_{ranks}_{order}_training", model, text, placement.data, wanted)
        for order in EVERYWHERE:
            check_inference(folder, f"{name}_{ranks}_{order}", model, without_training(in_order(on_ranks(name, ranks), order)))
    if name == "v":
        for order, places in TWICE.items():
            check_training(folder, f"v_{order}", model, two_stages_a_rank(order, places), placement.data, wanted)


def two_stages_a_rank(order, places):
    stages = [f"{stage}: {{place: p{place}, nodes: {nodes}}}" for stage, place, nodes in
              zip("abcd", places, ('["text.*", "layer0.*"]', '"layer1.*"', '"layer2.*"', "rest"))]
    text = in_order(text_of("v"), order).replace("mesh: {tp: 1}", "places: {p0: {ranks: [0], mesh: {}}, p1: {ranks: [1], mesh: {}}}")
    return re.sub(r"stages: \{.*\}", "stages: {" + ", ".join(stages) + "}", text)


def main():
    folder = harness.scratch("placements")
    for name in PLACEMENTS:
        check_plans(folder, name)
        if harness.FULL:
            check_placement(folder, name)


if __name__ == "__main__":
    harness.need_weft()
    main()
