# test: slow
"""Names of nodes are for people only: trainings and pipelines whose nodes and values have random names, also such as a
derivative or a recomputed node has, become the same programs."""

import json
import random

import harness

FOLDER = harness.scratch("renamed_nodes")
LAYERS, ROUNDS = 4, 12 if harness.FULL else 3
ENDINGS = ("", "", ".grad", ".again", ".again.grad", ".grad.grad", ".next", "/whole", "/factor", ".copy", ".0")
TRAIN = """
train:
  loss: {cross_entropy: {scores: scores, labels: labels}}
  inputs: {labels: "int64[8]"}
  optimizer: {adamw: {rate: 0.001}}
  clip: {norm: 1}
"""
SCHEDULES = {
    "training": TRAIN,
    "recompute": TRAIN + "  recompute: all\n",
    "data_parallel": "mesh: {dp: 2}\nshard: {x: {dp: 0}}" + TRAIN,
    "stages": "pipeline: {stages: 2, micro_batches: 4, order: 1f1b}" + TRAIN,
    "split_backward": "pipeline: {stages: 3, micro_batches: 4, order: zb-h1}" + TRAIN,
    "stages_recompute": "pipeline: {stages: 2, micro_batches: 2, order: gpipe}" + TRAIN + "  recompute: all\n",
    "inference": "pipeline: {stages: 2, micro_batches: 4}\n",
}


class Names:
    """A name for each key: the key itself, or a random one."""

    def __init__(self, draw):
        self.draw, self.known = draw, {}

    def __call__(self, key):
        if not self.draw:
            return key
        if key not in self.known:
            # Some names differ from another one by an ending alone.
            base = self.draw.choice(list(self.known.values())) if self.known and self.draw.random() < 0.3 else f"n{len(self.known)}"
            name = base + self.draw.choice(ENDINGS)
            self.known[key] = name if name not in self.known.values() else f"{name}{len(self.known)}"
        return self.known[key]


def model(draw):
    """A residual network with norms and activations; a weight is read by two layers."""
    nodes, values, weights, lines, x = Names(draw), Names(draw), [], [], "x"

    def node(name, text):
        nonlocal x
        lines.append(f' ["{nodes(name)}"] "{values(name)}" = {text}')
        x = values(name)
        return x

    def weight(name, *dims):
        weights.append(f'float[{",".join(map(str, dims))}] "{name}" = random({len(weights) + 1}, 0.2)')
        return name

    shared = weight("shared", 16, 16)
    for layer in range(LAYERS):
        first, scale, bias = x, weight(f"scale{layer}", 16), weight(f"bias{layer}", 16)
        node(f"h{layer}.norm", f'LayerNormalization("{x}", "{scale}", "{bias}")')
        node(f"h{layer}.up", f'MatMul("{x}", "{weight(f"up{layer}", 16, 32)}")')
        node(f"h{layer}.act", f'Gelu("{x}")')
        down = node(f"h{layer}.down", f'MatMul("{x}", "{weight(f"down{layer}", 32, 16)}")')
        if layer in (0, LAYERS - 1):
            down = node(f"h{layer}.mixed", f'MatMul("{x}", "{shared}")')
        node(f"h{layer}.residual", f'Add("{first}", "{down}")')
    lines.append(f' ["{nodes("head")}"] scores = MatMul("{x}", "{weight("head", 16, 10)}")')
    return ('<ir_version: 10, opset_import: ["" : 20]>\nm (float[8,16] x) => (float[8,10] scores)\n<' + ", ".join(weights) +
            ">\n{\n" + "\n".join(lines) + "\n}\n")


def numbers(value):
    """All numbers of a report, in order: bytes, times, counts, positions."""
    if isinstance(value, dict):
        return [each for part in value.values() for each in numbers(part)]
    if isinstance(value, list):
        return [float(len(value))] + [each for part in value for each in numbers(part)]
    return [float(value)] if isinstance(value, (int, float)) else []


def report(name, schedule, draw):
    path, text = FOLDER / f"{name}.onnxtxt", FOLDER / f"{name}.yaml"
    path.write_text(model(draw))
    text.write_text("weft: 1\n" + schedule)
    status, out, err = harness.weft("explain", path, "--schedule", text, "--json")
    return (numbers(json.loads(out)), "") if status == 0 else ([], f"exit {status}: {err[-300:]}")


def main():
    harness.need_weft()
    for name, schedule in SCHEDULES.items():
        plain, error = report(name, schedule, None)
        for seed in range(ROUNDS):
            renamed, wrong = report(f"{name}{seed}", schedule, random.Random(f"{name} {seed}"))
            harness.check(f"{name}/{seed}", plain and plain == renamed, error or wrong or
                          f"{len(plain)} and {len(renamed)} numbers, {sum(a != b for a, b in zip(plain, renamed))} of them differ")


main()
