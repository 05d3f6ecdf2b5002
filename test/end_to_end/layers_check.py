# test: slow
"""Layers that repeat are a loop in program.cpp: it computes the same bits as the steps written out (`--unroll-layers`),
and says the same names in traces, time-outs and refusals. Random models of layers, GPT-2 with its schedules, emulated cuda."""

import json
import random
import sys

import numpy as np

import harness

sys.path.insert(0, str(harness.ROOT / "test" / "emulation"))
from emulated import Emulated  # noqa: E402

MODELS = 40 if harness.FULL else 3
ROWS, WIDTH = 12, 16
SIZES = {"layers": 8, "width": 32, "heads": 2, "vocab": 64, "context": 16}
DIMS = ("--dim", "batch=2", "--dim", "seq=8")
PIPELINE = """weft: 1
places: {first: {ranks: [0], mesh: {t: 1}}, second: {ranks: [1], mesh: {t: 1}}}
pipeline:
  stages:
    first: {place: first, nodes: [wte, embedding, "h.0.*", "h.1.*", "h.2.*", "h.3.*"]}
    second: {place: second, nodes: ["h.4.*", "h.5.*", "h.6.*", "h.7.*", ln_f, lm_head.weight, logits]}
  micro_batches: 2
  order: gpipe
"""
HEAD = '<ir_version: 10, opset_import: ["" : 20]>\n'


class LayeredModel:
    """A stack of layers of one shape. They differ in the details that a loop over layers must get right. These are the
    numbering of nodes, weights that only some layers share, values that are read a layer later, indices, and results of
    single layers."""

    def __init__(self, seed):
        self.random = random.Random(seed)
        self.count = self.random.randint(4, 8)
        self.first, self.step = self.random.choice([(0, 1), (1, 1), (7, 1), (2, 3)])
        self.form = self.random.choice(["h.{}.{}", "block_{}_{}", "{}/{}", "h.{}.{}", "layer{:03d}.{}"])
        self.nodes, self.constants, self.outputs = [], {}, []
        self.makers = [self.random.choice([self.dense, self.norm, self.skip, self.table, self.softmax, self.back])
                       for _ in range(self.random.randint(6, 10))]
        self.shared = [self.random.random() < 0.3 for _ in self.makers]
        h = "x"
        kept = h
        for layer in range(self.count):
            start = h
            for number, make in enumerate(self.makers):
                weights = f"s{number}" if self.shared[number] else f"w{layer}_{number}"
                h = make(f"v{layer}_{number}", self.name(layer, f"part{number}"), h, weights, start, kept)
            kept = start
            if self.random.random() < 0.05:
                self.outputs.append(h)
        self.outputs = sorted({*self.outputs, h})

    def name(self, layer, part):
        return self.form.format(self.first + self.step * layer, part)

    def constant(self, name, *dims):
        self.constants[name] = f"float{list(dims)} {name} = random({len(self.constants) + 1}, 0.3)"
        return name

    def node(self, value, name, text):
        self.nodes.append(f'  ["{name}"] {value} = {text}')
        return value

    def dense(self, value, name, h, weights, start, kept):
        product = self.node(f"{value}_p", f"{name}.product", f"MatMul({h}, {self.constant(weights, WIDTH, WIDTH)})")
        shifted = self.node(f"{value}_b", f"{name}.shift", f"Add({product}, {self.constant(weights + 'b', WIDTH)})")
        return self.node(value, name, f"Tanh({shifted})")

    def norm(self, value, name, h, weights, start, kept):
        return self.node(value, name, f"LayerNormalization({h}, {self.constant(weights, WIDTH)})")

    def skip(self, value, name, h, weights, start, kept):
        return self.node(value, name, f"Add({h}, {start})")

    def back(self, value, name, h, weights, start, kept):
        """Reads the input of the previous layer."""
        return self.node(value, name, f"Max({h}, {kept})")

    def table(self, value, name, h, weights, start, kept):
        rows = self.node(f"{value}_t", f"{name}.rows", f"Gather({self.constant(weights, 9, WIDTH)}, indices)")
        return self.node(value, name, f"Mul({h}, {rows})")

    def softmax(self, value, name, h, weights, start, kept):
        turned = self.node(f"{value}_t", f"{name}.turned", f"Transpose<perm = [1, 0]>({h})")
        shares = self.node(f"{value}_s", f"{name}.shares", f"Softmax<axis = 1>({turned})")
        return self.node(value, name, f"Transpose<perm = [1, 0]>({shares})")

    def text(self):
        inputs = f"float[{ROWS},{WIDTH}] x, int64[{ROWS}] indices"
        outputs = ", ".join(f"float[{ROWS},{WIDTH}] {name}" for name in self.outputs)
        constants = ",\n    ".join(self.constants.values())
        head = f"net ({inputs}) => ({outputs})" + (f"\n  <{constants}>" if constants else "")
        return HEAD + head + " {\n" + "\n".join(self.nodes) + "\n}\n"


def compiled(name, folder, compiler, model, *flags):
    """The executables with the loop and without it."""
    programs = {"looped": folder / "looped", "unrolled": folder / "unrolled"}
    for form, program in programs.items():
        more = ["--unroll-layers"] if form == "unrolled" else []
        status, _, err = compiler("compile", model, *flags, *more, "-o", program, "--quiet")
        if not harness.check(f"{name}/{form} compiles", status == 0, f"exit {status}: {err[-400:]}"):
            return None
    return programs


def loops(folder, model, *flags):
    """How many loops over layers program.cpp has."""
    status, _, err = harness.weft("compile", model, *flags, "--emit", "source", "-o", folder / "source", "--quiet")
    return (folder / "source" / "program.cpp").read_text().count("for (int layer = ") if status == 0 else err


def results(program, out, *flags):
    status, _, err = harness.run([program, "--poison", "--iterations", "2", "--output-dir", out, *flags])
    return {file.name: file.read_bytes() for file in sorted(out.glob("*.npy"))} if status == 0 else err


def check_bits(name, folder, programs, *flags):
    found, wanted = (results(programs[form], folder / f"{form}_out", *flags) for form in ("looped", "unrolled"))
    harness.check(f"{name}/bits", isinstance(wanted, dict) and found == wanted, found if isinstance(found, str) else "differ")


def events(program, folder, *flags):
    """The names of steps in a trace, in order, with the first of their nodes."""
    file = folder / "trace.json"
    status, _, err = harness.run([program, "--random-inputs", "1", "--trace", file, *flags])
    if status != 0:
        return err
    listed = json.loads(file.read_text())
    listed = listed["traceEvents"] if isinstance(listed, dict) else listed
    return [(e["pid"], e["name"], e["args"]["nodes"].split(",")[0]) for e in listed if e.get("ph") == "X"]


def check_random(seed):
    name = f"random {seed}"
    folder = harness.scratch(f"layers_{seed}")
    model = LayeredModel(seed)
    (folder / "net.onnxtxt").write_text(model.text())
    generator = np.random.default_rng(seed)
    np.save(folder / "x.npy", generator.uniform(-1, 1, (ROWS, WIDTH)).astype(np.float32))
    np.save(folder / "indices.npy", generator.integers(0, 9, ROWS))
    inputs = [f"--input=x={folder}/x.npy", f"--input=indices={folder}/indices.npy"]
    programs = compiled(name, folder, harness.weft, folder / "net.onnxtxt")
    if programs:
        check_bits(name, folder, programs, *inputs)
    count = loops(folder, folder / "net.onnxtxt")
    return count if isinstance(count, int) else 0


def check_gpt2(name, compiler, *flags):
    folder = harness.scratch("layers_" + name.replace(" ", "_"))
    sizes = [word for key, value in SIZES.items() for word in (f"--{key}", str(value))]
    model = harness.make_gpt2(folder / "gpt2.onnx", *sizes)
    programs = compiled(name, folder, compiler, model, *DIMS, *flags)
    if programs:
        check_bits(name, folder, programs, "--random-inputs", "3")
    return folder, model, programs


def check_names(folder, programs):
    """A program names the layer's number in all texts about a step."""
    looped, unrolled = (events(programs[form], folder) for form in ("looped", "unrolled"))
    harness.check("names/trace", isinstance(unrolled, list) and looped == unrolled, "the events differ")
    told = [name for _, name, _ in looped if name.startswith("h.3.")]
    harness.check("names/each layer", "h.3.mlp.c_fc" in told and not any("{" in name for _, name, _ in looped), told)
    status, _, err = harness.run([programs["looped"], "--random-inputs", "1", "--stall", "0:h.3.mlp.c_fc", "--timeout", "1"])
    harness.check("names/time-out", status == 124 and "step h.3.mlp.c_fc" in err, f"exit {status}: {err[-300:]}")
    status, _, err = harness.run([programs["looped"], "--random-inputs", "1", "--stall", "0:h.9.mlp.c_fc"])
    harness.check("names/no such step", status == 2, f"exit {status}: {err[-300:]}")


def check_two_stacks():
    """The same weights in two stacks, whose nodes are counted on."""
    folder = harness.scratch("layers_two_stacks")
    nodes = []
    for value, first in (("x", 0), ("z", 20)):
        for k in range(10):
            h = value if k == 0 else f"{value}{k - 1}"
            nodes.append(f'  ["node_mm_{first + k}"] {value}p{k} = MatMul({h}, w{k})\n'
                         f'  ["node_tanh_{first + k}"] {value}{k} = Tanh({value}p{k})')
    weights = ", ".join(f"float[{WIDTH},{WIDTH}] w{k} = random({k + 1}, 0.3)" for k in range(10))
    head = f"net (float[5,{WIDTH}] x, float[7,{WIDTH}] z) => (float[5,{WIDTH}] x9, float[7,{WIDTH}] z9)\n  <{weights}> {{\n"
    (folder / "net.onnxtxt").write_text(HEAD + head + "\n".join(nodes) + "\n}\n")
    count = loops(folder, folder / "net.onnxtxt")
    harness.check("two stacks/loops", count == 2, count)
    programs = compiled("two stacks", folder, harness.weft, folder / "net.onnxtxt")
    if programs:
        check_bits("two stacks", folder, programs, "--random-inputs", "5")


def check_indices():
    """An index outside of a layer's table is told of that layer's node."""
    folder = harness.scratch("layers_indices")
    rows = [f'  ["h.{k}.look"] t{k} = Gather(w{k}, i{k})\n  ["h.{k}.turn"] u{k} = Transpose<perm = [1, 0]>(t{k})\n'
            f'  ["h.{k}.share"] s{k} = Softmax<axis = 1>(u{k})\n  ["h.{k}.sum"] y{k} = ReduceSum<keepdims = 0>(s{k}, axes)'
            for k in range(6)]
    tables = ", ".join(f"float[5,{WIDTH}] w{k} = random({k + 1}, 0.3)" for k in range(6))
    inputs, outputs = (", ".join(form.format(k=k) for k in range(6)) for form in (f"int64[{ROWS}] i{{k}}", f"float[{ROWS}] y{{k}}"))
    (folder / "net.onnxtxt").write_text(
        HEAD + f"net ({inputs}) => ({outputs})\n  <{tables}, int64[1] axes = {{0}}> {{\n" + "\n".join(rows) + "\n}\n")
    programs = compiled("indices", folder, harness.weft, folder / "net.onnxtxt")
    if not programs:
        return
    count = loops(folder, folder / "net.onnxtxt")
    harness.check("indices/loop", count == 1, count)
    flags = []
    for k in range(6):
        np.save(folder / f"{k}.npy", np.full(ROWS, 5 if k == 4 else k % 5))
        flags.append(f"--input=i{k}={folder}/{k}.npy")
    for form, program in programs.items():
        status, _, err = harness.run([program, *flags])
        harness.check(f"indices/{form}", status == 1 and "node 'h.4.look' (Gather): index 5" in err, f"exit {status}: {err[-300:]}")


if __name__ == "__main__":
    harness.need_weft()
    with_loops = sum(check_random(seed) > 0 for seed in range(MODELS))
    harness.check("random/loops", 3 * with_loops >= MODELS, f"{with_loops} of {MODELS} have one")
    gpt2 = harness.ROOT / "samples" / "gpt2"
    folder, model, programs = check_gpt2("gpt2", harness.weft)
    if programs:
        check_names(folder, programs)
        count = loops(folder, model, *DIMS)
        harness.check("gpt2/loop", count == 1, count)
        status, _, err = harness.weft("compile", model, *DIMS, "--unroll-layers", "--emit", "source", "-o", folder / "plain", "--quiet")
        harness.check("gpt2/--unroll-layers", "layer" not in (folder / "plain" / "program.cpp").read_text(), "a layer")
    (folder / "pipeline.yaml").write_text(PIPELINE)
    for schedule in ([gpt2 / "tp2.yaml"] if harness.FULL else []) + [gpt2 / "tp2_overlap.yaml", folder / "pipeline.yaml"]:
        check_gpt2(schedule.stem, harness.weft, "--schedule", schedule)
    check_indices()
    check_two_stacks()
    check_gpt2("emulated cuda", Emulated(harness.BUILD).run)
