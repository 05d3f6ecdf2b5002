# test: slow, long
"""Results are bit-equal to one rank's wherever explain claims it. Cases are random chains of nodes, some of them per
model, whose rows, images or columns are cut. Further small models must not make the claim, or must make it."""

import json
import random

import harness
import numpy as np

HEAD = '<ir_version: 8, opset_import: ["" : 17]>\n'
MODELS = 6 if harness.FULL else 1


class Model:
    """Chains that share nothing, each with its own input, result and entry of `shard`."""

    def __init__(self, seed):
        self.random = random.Random(seed)
        self.inputs, self.outputs, self.constants, self.nodes, self.shard = [], [], [], [], []

    def constant(self, *dims):
        name = f"w{len(self.constants)}"
        self.constants.append(f"float{list(dims)} {name} = random({len(self.constants)}, 0.3)")
        return name

    def node(self, text):
        name = f"v{len(self.nodes)}"
        self.nodes.append(f"  {name} = {text}")
        return name

    def chain(self, x, dims, steps, entry):
        """Nodes from input x, of which `entry` is sliced."""
        self.inputs.append(f"float{list(dims)} {x}")
        self.shard.append(entry)
        h = x
        for step in steps:
            h, dims = step(h, dims)
        self.nodes.append(f"  y_{x} = Identity({h})")
        self.outputs.append(f"float{list(dims)} y_{x}")

    def product(self, h, dims):
        columns = self.random.choice([10, 16, 48, 130])
        product = self.node(f"MatMul({h}, {self.constant(dims[-1], columns)})")
        return self.node(f"Add({product}, {self.constant(columns)})"), [*dims[:-1], columns]

    def normalize(self, h, dims):
        return self.node(f"LayerNormalization({h}, {self.constant(dims[-1])}, {self.constant(dims[-1])})"), dims

    def softmax(self, h, dims):
        return self.node(f"Softmax({h})"), dims

    def scale(self, h, dims):
        scaled = self.node(f"Mul({h}, {self.constant(dims[-1])})")
        return self.node(f"Add({scaled}, {self.constant(dims[-1])})"), dims

    def sigmoid(self, h, dims):
        return self.node(f"Mul({h}, {self.node(f'Sigmoid({h})')})"), dims

    def convolve(self, h, dims):
        filters, window = self.random.choice([4, 9]), self.random.choice([1, 3])
        w, b, pad = self.constant(filters, dims[1], window, window), self.constant(filters), window // 2
        return self.node(f"Conv<pads = [{pad}, {pad}, {pad}, {pad}]>({h}, {w}, {b})"), [dims[0], filters, *dims[2:]]

    def pool(self, h, dims):
        kind = self.random.choice(["MaxPool", "AveragePool"])
        return self.node(f"{kind}<kernel_shape = [2, 2]>({h})"), [*dims[:2], dims[2] - 1, dims[3] - 1]

    def text(self):
        return (f"{HEAD}m ({', '.join(self.inputs)}) => ({', '.join(self.outputs)})\n<{', '.join(self.constants)}>\n{{\n"
                + "\n".join(self.nodes) + "\n}\n")


def random_model(seed):
    model = Model(seed)
    pick = model.random
    for i in range(5):
        dims = [pick.choice([2, 3, 4, 7, 13, 26]), pick.choice([8, 48, 300])]
        if i % 2:
            dims.insert(0, pick.choice([1, 3]))
        steps = pick.choices([model.product, model.normalize, model.softmax, model.scale, model.sigmoid], k=4)
        model.chain(f"x{i}", dims, [model.product, *steps], f"x{i}: {{a: {len(dims) - 2}}}")
    for i in range(5, 7):
        dims = [pick.choice([2, 3, 5]), pick.choice([1, 3, 8]), 9, 7]
        model.chain(f"x{i}", dims, [model.convolve, *pick.choices([model.convolve, model.pool], k=2)], f"x{i}: {{a: 0}}")
    last = len(model.constants)
    model.chain("x7", [5, 40], [model.product], f"w{last}: {{a: 1}}")
    return model


def outputs(folder, model, schedule, name, *run_flags):
    """A program's outputs for random inputs; None after reporting."""
    program, out = folder / name, folder / f"{name}_out"
    flags = ["--schedule", schedule] if schedule else []
    status, _, err = harness.weft("compile", model, *flags, "-o", program)
    if status == 0:
        status, _, err = harness.run([program, "--random-inputs", "5", "--output-dir", out, *run_flags])
    if not harness.check(f"{name}/runs", status == 0, f"exit {status}: {err[-300:]}"):
        return None
    return {file.stem: np.load(file) for file in sorted(out.glob("*.npy"))}


def claims(model, schedule):
    status, out, err = harness.weft("explain", model, "--schedule", schedule, "--json")
    return json.loads(out)["bit_equal"] if status == 0 else f"exit {status}: {err[-300:]}"


def check_equal(folder, model, schedules):
    """Each schedule claims bit-equality and has it."""
    want = outputs(folder, model, None, model.stem)
    for schedule in schedules:
        claimed = claims(model, schedule)
        harness.check(f"{schedule.stem}/claims it", claimed is True, claimed)
        have = outputs(folder, model, schedule, schedule.stem)
        if not want or not have:
            continue
        wrong = [f"{name}: {np.count_nonzero(have[name] != value)} of {value.size}" for name, value in want.items()
                 if not np.array_equal(have[name].view(np.uint32), value.view(np.uint32))]
        harness.check(f"{schedule.stem}/bit-equal", not wrong, f"elements that differ: {', '.join(wrong)}")


def write(folder, name, text):
    (folder / name).write_text(text)
    return folder / name


def check_random(folder):
    for seed in range(MODELS):
        made = random_model(seed)
        model = write(folder, f"random{seed}.onnxtxt", made.text())
        shard = "\n".join("  " + entry for entry in made.shard)
        schedules = [write(folder, f"random{seed}_ranks{n}.yaml", f"weft: 1\nmesh: {{a: {n}}}\nshard:\n{shard}\n")
                     for n in (2, 3)]
        check_equal(folder, model, schedules)


def check_rows_of_a_product(folder):
    text = f"{HEAD}m (float[4,64] x) => (float[4,10] y)\n<float[64,10] w = random(1, 0.3), float[10] b = random(2, 0.3)>\n"
    model = write(folder, "gemm.onnxtxt", text + "{\n  y = Gemm(x, w, b)\n}\n")
    check_equal(folder, model, [write(folder, "gemm_rows.yaml", "weft: 1\nmesh: {a: 2}\nshard: {x: {a: 0}}\n")])


def check_cut_kernel(folder):
    """A gather between a product and a sum: on one rank they are rounded once, here twice."""
    text = f"{HEAD}m (float[4,64] x, float[64] s, float[4,64] z) => (float[4,64] y)\n"
    model = write(folder, "cut.onnxtxt", text + "{\n  t = Mul(x, s)\n  y = Add(t, z)\n}\n")
    schedule = write(folder, "cut_ranks.yaml", "weft: 1\nmesh: {a: 2}\nshard: {x: {a: 0}, t.use: {a: R}}\n")
    claimed = claims(model, schedule)
    harness.check("cut_ranks/does not claim it", claimed is False, claimed)


def check_threads(folder):
    """A rank with one thread and a rank with several run the same machine code. The cases are a loop over elements, and
    a loop over time whose rows the threads share, as whole tiles of a product and the remainder."""
    text = f"{HEAD}m (float[128,768] x) => (float[128,768] y)\n<float[768] s = random(1, 0.3), float[768] b = random(2, 0.3)>\n"
    model = write(folder, "threads.onnxtxt", text + "{\n  y = LayerNormalization(x, s, b)\n}\n")
    check_counts(folder, model, "threads")
    lstm = """(float[5,13,8] x) => (float[5,1,13,32] y)
<float[1,128,8] w = random(1, 0.3), float[1,128,32] r = random(2, 0.3)>
{
  y = LSTM <hidden_size = 32> (x, w, r)
}
"""
    check_counts(folder, write(folder, "lstm.onnxtxt", f"{HEAD}lstm {lstm}"), "lstm")


def check_counts(folder, model, name):
    want = outputs(folder, model, None, f"{name}_1", "--threads", "1")
    for threads in ("2", "3", "4"):
        have = outputs(folder, model, None, f"{name}_{threads}", "--threads", threads)
        same = want and have and np.array_equal(have["y"].view(np.uint32), want["y"].view(np.uint32))
        harness.check(f"{name}/{threads} threads give the bits of one", same, "elements differ")


if __name__ == "__main__":
    harness.need_weft()
    FOLDER = harness.scratch("bit_equality")
    check_rows_of_a_product(FOLDER)
    check_cut_kernel(FOLDER)
    check_threads(FOLDER)
    check_random(FOLDER)
