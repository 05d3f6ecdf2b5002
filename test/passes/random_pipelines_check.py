# test: slow
"""Random pipelines whose collectives become kernels, run in buckets, or overlap: the compiler proves each plan right, or
refuses the schedule with a reason.

    random_pipelines_check.py [FIRST [COUNT]]   the networks of these seeds
"""

import random
import re
import sys

import harness

FOLDER = harness.scratch("random_pipelines")
NETWORKS, SCHEDULES = 150 if harness.FULL else 12, 6
COLLECTIVE = re.compile(r"\.(?:sum|gather|scatter|exchange)(?:\w*|\.\w+)$")


class Network:
    """Layers of two products each, and what a schedule says of their slices, stages and training."""

    def __init__(self, draw):
        self.draw, self.rows, self.inner, self.layers = draw, draw.choice((8, 16, 64)), draw.choice((32, 64)), draw.choice((2, 3, 4))

    def model(self):
        weights, nodes, x = [], [], "x"
        for layer in range(self.layers):
            weights += [f"float[16,{self.inner}] u{layer} = random({2 * layer + 1}, 0.2)",
                        f"float[{self.inner},16] v{layer} = random({2 * layer + 2}, 0.2)", f"float[16] b{layer} = random({50 + layer}, 0.2)"]
            result = "y" if layer == self.layers - 1 else f"plus{layer}"
            nodes += [f' ["up{layer}"] up{layer} = MatMul({x}, u{layer})',
                      f' ["act{layer}"] act{layer} = {self.draw.choice(("Tanh", "Gelu", "Sigmoid"))}(up{layer})',
                      f' ["down{layer}"] down{layer} = MatMul(act{layer}, v{layer})', f' ["plus{layer}"] {result} = Add(down{layer}, b{layer})']
            x = result
        image = f"float[{self.rows},16]"
        return (f'<ir_version: 10, opset_import: ["" : 20]>\nm ({image} x) => ({image} y) <{", ".join(weights)}> {{\n' + "\n".join(nodes) + "\n}\n")

    def schedule(self):
        draw, mesh = self.draw, self.draw.choice(("tp: 2", "dp: 2, tp: 2"))
        axes, trains = re.findall(r"(\w+):", mesh), draw.random() < 0.75
        text = f"weft: 1\nmesh: {{{mesh}}}\n"
        stages = draw.choice((0, 2, 2, 3) if self.layers > 2 else (0, 2, 2))
        if stages:
            order = draw.choice(("1f1b", "gpipe", "zb-h1") if trains else ("gpipe",))
            text += f"pipeline: {{stages: {stages}, micro_batches: {draw.choice((2, 4))}, order: {order}}}\n"
        sliced = [f"{name}{layer}: {{{draw.choice(axes)}: {draw.randrange(1 if name == 'b' else 2)}}}"
                  for layer in range(self.layers) for name in ("u", "v", "down", "act", "b") if draw.random() < 0.35]
        text += f"shard: {{{', '.join(sliced)}}}\n" if sliced else ""
        if trains:
            text += ("train:\n  loss: {mean_squared_error: {predictions: y, targets: t}}\n"
                     f'  inputs: {{t: "float[{self.rows}, 16]"}}\n  optimizer: {{{draw.choice(("sgd", "adamw"))}: {{rate: 0.01}}}}\n')
            text += draw.choice(("", "", "  recompute: all\n")) + draw.choice(("", "", "  clip: {norm: 1}\n"))
        return text

    def transform(self, names, number):
        draw = self.draw
        name = draw.choice(names) if names and draw.random() < 0.5 else draw.choice(("*gather*", "*.sum*", "*scatter*", "*.grad.sum*"))
        product = f"{draw.choice(('up', 'down'))}{draw.randrange(self.layers)}"
        mechanism = draw.choice(("streams", "signal", "fused"))
        return "  - " + draw.choice((
            f'fuse: {{ops: ["{name}"], into: k{number}, bucket: {draw.choice(("1B", "1KiB", "64KiB"))}}}',
            f'fuse: {{ops: ["{name}"], into: k{number}, bucket: 1KiB}}',
            f'fuse: {{ops: ["{name}"], into: k{number}}}',
            f'overlap: {{ops: ["{name}"]}}',
            f'overlap: {{ops: ["{name}", "{product}"], chunks: 2, dim: {draw.choice((0, 1))}, mechanism: {mechanism}}}',
        )) + "\n"


def check_network(seed, counts):
    draw = random.Random(seed)
    network = Network(draw)
    model, file = FOLDER / f"{seed}.onnxtxt", FOLDER / f"{seed}.yaml"
    model.write_text(network.model())
    plain = network.schedule()
    file.write_text(plain)
    status, out, err = harness.weft("explain", model, "--schedule", file, "--names")
    if not harness.check(f"{seed}/plain", status in (0, 1, 3), f"exit {status}: {err[-300:]}") or status != 0:
        return
    names = [word for word in out.split() if COLLECTIVE.search(word)]
    for number in range(SCHEDULES):
        path = FOLDER / f"{seed}_{number}.yaml"
        path.write_text(plain + "transform:\n" + "".join(network.transform(names, k) for k in range(draw.choice((1, 1, 2)))))
        status, _, err = harness.weft("explain", model, "--schedule", path)
        counts[status] = counts.get(status, 0) + 1
        harness.check(f"{seed}/{number}", status in (0, 1, 3), f"exit {status}: {err[-400:]}")


def main():
    first, count = (int(argument) for argument in (*sys.argv[1:3], 1, NETWORKS)[:2]) if len(sys.argv) != 2 else (int(sys.argv[1]), 1)
    counts = {}
    for seed in range(first, first + count):
        check_network(seed, counts)
    print(f"exit codes: {counts}")
    harness.check("many are accepted", count < 10 or counts.get(0, 0) >= count, str(counts))


if __name__ == "__main__":
    harness.need_weft()
    main()
