# test: slow
"""Plans of random trainings on random machines fit. The memory of a rank and the time that `weft plan` states equal
those of the schedule's program, and no schedule that it writes is refused. By default 12 trainings, in `full` 2,000;
every twelfth with stages, every sixth with transforms.

    plan_memory_check.py [FIRST [COUNT]]   the trainings of these seeds
"""

import json
import random
import re
import sys

import harness

TRAININGS = 2000 if harness.FULL else 12
FOLDER = harness.scratch("plan_memory")
MACHINE = """machine: a host
target: host
archs: [x86-64-v3]
ranks: {ranks}
rank: {{f32: {rate}GOP/s, f64: 50GOP/s, f16: 100GOP/s, memory: {rate}00MB/s, capacity: {capacity}B, step: {step}, function: 50}}
network:
  - {{name: wire, ranks: {ranks}, bandwidth: {bandwidth}, latency: {latency}}}
"""
OPTIMIZERS = ("sgd: {rate: 0.1}", "momentum: {rate: 0.1}", "adamw: {rate: 0.001}", "adafactor: {rate: 0.01}")
UNIT = {"B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}
SECONDS = {"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1}


class Training:
    """A model in layers, and what is said of its training."""

    def __init__(self, draw):
        self.draw, self.weights, self.nodes, self.last = draw, [], [], "x"
        self.rows, self.width = draw.choice((4, 8, 12, 16, 64)), draw.choice((8, 12, 16, 32, 48, 64))
        self.has_classes = draw.random() < 0.6
        inner = draw.choice((1, 2, 4)) * self.width
        for layer in range(draw.randint(1, 4)):
            self.add_layer(f"h.{layer}", inner)
        self.outputs = draw.choice((2, 10, 16, 64)) if self.has_classes else self.width
        self.product("head", self.width, self.outputs, "scores")

    def weight(self, name, *dims):
        self.weights.append(f'float[{",".join(map(str, dims))}] "{name}" = random({len(self.weights) + 1}, 0.2)')

    def node(self, name, text):
        self.nodes.append(f' ["{name}"] "{name}" = {text}')
        self.last = name

    def product(self, name, rows, columns, result=None):
        self.weight(f"{name}.weight", rows, columns)
        bias = self.draw.random() < 0.6
        operand = self.last
        self.node(name if bias or not result else result, f'MatMul("{operand}", "{name}.weight")')
        if bias:
            self.weight(f"{name}.bias", columns)
            self.node(result or f"{name}.sum", f'Add("{name}", "{name}.bias")')

    def add_layer(self, name, inner):
        before = self.last
        if self.draw.random() < 0.4:
            self.weight(f"{name}.norm.weight", self.width)
            self.weight(f"{name}.norm.bias", self.width)
            self.node(f"{name}.norm", f'LayerNormalization("{self.last}", "{name}.norm.weight", "{name}.norm.bias")')
        self.product(f"{name}.up", self.width, inner)
        self.node(f"{name}.act", f'{self.draw.choice(("Relu", "Tanh", "Gelu", "Sigmoid"))}("{self.last}")')
        self.product(f"{name}.down", inner, self.width)
        if self.draw.random() < 0.6:
            self.node(f"{name}.out", f'Add("{self.last}", "{before}")')

    def model(self):
        weights, nodes = ",\n".join(self.weights), "\n".join(self.nodes)
        head = f"m (float[{self.rows},{self.width}] x) => (float[{self.rows},{self.outputs}] scores)"
        return f'<ir_version: 10, opset_import: ["" : 20]>\n{head} <\n{weights}> {{\n{nodes}\n}}\n'

    def schedule(self):
        loss = "cross_entropy: {scores: scores, labels: labels}" if self.has_classes else "mean_squared_error: {predictions: scores, targets: labels}"
        labels = f"int64[{self.rows}]" if self.has_classes else f"float[{self.rows}, {self.outputs}]"
        lines = ["weft: 1", "train:", f"  loss: {{{loss}}}", f'  inputs: {{labels: "{labels}"}}', f"  optimizer: {{{self.draw.choice(OPTIMIZERS)}}}"]
        if self.draw.random() < 0.4:
            lines.append("  clip: {norm: 1}")
        if self.draw.random() < 0.3:
            lines.append("  average: {decay: 0.9}")
        return "\n".join(lines) + "\n"


def machine_text(draw, bytes_of_one, ranks):
    bandwidth, latency = draw.choice((("10GB/s", "10ns"), ("400MB/s", "3us"), ("1GB/s", "1us")))
    capacity = round(bytes_of_one * draw.choice((0.3, 0.5, 0.7, 0.8, 0.9, 1.02, 1.5)))
    return MACHINE.format(ranks=ranks, rate=draw.choice((1, 10)), capacity=capacity, step=draw.choice(("5ns", "50ns", "2us")),
                          bandwidth=bandwidth, latency=latency)


def needed(program):
    return sum(program[part] for part in ("own_bytes", "thread_bytes", "scratch_bytes", "window_bytes", "weight_bytes"))


def explained(model, *flags):
    """The memory of the fullest rank and the time, both by explain; its status and messages."""
    status, out, err = harness.weft("explain", model, "--json", *flags)
    if status != 0:
        return None, None, status, err
    said = json.loads(out)
    return max(map(needed, said["memory"])), said["timeline"]["seconds"], status, err


def best_row(table):
    """Seconds and bytes of the first row of plan's table."""
    for line in table.splitlines():
        found = re.search(r"(\d+(?:\.\d+)?) (ns|us|ms|s) +1\.00 .*?(\d+(?:\.\d+)?) (B|KiB|MiB|GiB)$", line)
        if found:
            return float(found[1]) * SECONDS[found[2]], float(found[3]) * UNIT[found[4]]
    return None, None


def check_training(seed, counts):
    draw = random.Random(seed)
    training = Training(draw)
    model, kept, on, file = (FOLDER / f"{seed}{end}" for end in (".onnxtxt", ".kept.yaml", ".machine.yaml", ".yaml"))
    model.write_text(training.model())
    kept.write_text(training.schedule())
    alone, _, status, err = explained(model, "--schedule", kept)
    if not harness.check(f"{seed}/for one rank", alone is not None, f"exit {status}: {err[-300:]}"):
        return
    ranks, level = draw.choice((2, 2, 3, 4, 4, 8)), {3: "transforms", 6: "pipeline", 9: "transforms"}.get(seed % 12, "shard")
    on.write_text(machine_text(draw, alone, ranks))
    status, _, table = harness.weft("plan", model, "--machine", on, "--train", kept, "--level", level, "-o", file, "--quiet")
    if status == 1 and re.search(r"\[plan-(none|memory)\]", table):
        counts["no plan fits"] += 1
        return
    if not harness.check(f"{seed}/is planned by {level}", status == 0, f"exit {status}: {table[-300:]}"):
        return
    counts[level] += 1
    seconds, size = best_row(table)
    program, time, status, err = explained(model, "--schedule", file, "--machine", on)
    if not harness.check(f"{seed}/is taken by the compiler", status == 0, f"exit {status}: {err[-300:]}"):
        return
    harness.check(f"{seed}/memory", size is not None and 0.95 * program <= size, f"said {size}, needs {program}")
    harness.check(f"{seed}/time", seconds is not None and abs(seconds - time) <= 0.03 * time, f"said {seconds}, explained {time}")


def main():
    first, count = (int(argument) for argument in (*sys.argv[1:3], 1, TRAININGS)[:2]) if len(sys.argv) != 2 else (int(sys.argv[1]), 1)
    counts = dict.fromkeys(("shard", "transforms", "pipeline", "no plan fits"), 0)
    for seed in range(first, first + count):
        check_training(seed, counts)
    print(", ".join(f"{name}: {number}" for name, number in counts.items()))
    harness.check("most are planned", count < 20 or counts["no plan fits"] <= count // 2, str(counts))


if __name__ == "__main__":
    harness.need_weft()
    main()
