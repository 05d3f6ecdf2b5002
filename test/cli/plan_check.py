# test: slow
"""`weft plan`: schedules from nothing are read, kept in part, compiled, and compute what one rank computes."""

import json
import os
import re
import resource
import subprocess
import sys

import xml.etree.ElementTree

import harness

FOLDER = harness.scratch("plan")
MLP = harness.ROOT / "samples" / "mlp" / "mlp.onnxtxt"
HOST = """machine: a host
target: host
archs: [x86-64-v3]
ranks: {ranks}
rank: {{f32: 100GOP/s, f64: 50GOP/s, f16: 100GOP/s, memory: 20GB/s, capacity: {capacity}, step: 50ns, function: 50}}
network:
  - {{name: wire, ranks: {ranks}, bandwidth: 1GB/s, latency: 5us}}
"""
TRAIN = """weft: 1  # of the user
dims: {batch: 8, seq: 32}
train:
  loss: {cross_entropy: {scores: logits, labels: input_ids, shift: 1}}
  optimizer: {adamw: {rate: 1e-3, epsilon: 1e-5}}
"""

SIDE = """<ir_version: 10, opset_import: ["" : 20]>
m (float[8, 16] x, float[8, 6] i) => (float[8, 16] y, float[8, 6] j, float[6] k)
<float[16, 64] w1 = random(1, 0.2), float[64, 16] w2 = random(2, 0.2), float two = {2}, int64[1] zero = {0}> {
  [up] a = MatMul(x, w1) [act] b = Relu(a) [down] y = MatMul(b, w2)
  [j] j = Mul(i, two) [k] k = ReduceSum<keepdims = 0>(j, zero)
}
"""


def machine(ranks, capacity="8GB"):
    path = FOLDER / f"host{ranks}_{capacity}.yaml"
    path.write_text(HOST.format(ranks=ranks, capacity=capacity))
    return path


def plan(name, model, on, *flags):
    """The schedule's file and text; the table of meshes is on standard error."""
    file = FOLDER / f"{name}.yaml"
    status, _, err = harness.weft("plan", model, "--machine", on, "-o", file, "--quiet", *flags)
    if not harness.check(f"{name}/is planned", status == 0, f"exit {status}: {err[-400:]}"):
        return None, ""
    rows = [line for line in err.splitlines() if re.search(r"\d+\.\d\d +\d", line)]
    harness.check(f"{name}/says what else there is", "of the best" in err and len(rows) >= 2, err[-400:])
    return file, file.read_text()


def check_inference():
    for ranks in (2, 4):
        file, text = plan(f"mlp{ranks}", MLP, machine(ranks))
        if file is None:
            continue
        harness.check(f"mlp{ranks}/a line an entry", re.search(r"^mesh: \{\w+: \d", text, re.M) and '  "' in text and "# saves" in text, text)
        status, out, err = harness.weft("verify", MLP, "--schedule", file)
        harness.check(f"mlp{ranks}/computes what one rank does", status == 0, f"exit {status}: {(out + err)[-400:]}")


class Page:
    """A page of a plan, as text and as a tree."""

    def __init__(self, name, path):
        self.name, self.text, self.tree = name, path.read_text() if path.is_file() else "", None
        try:
            self.tree = xml.etree.ElementTree.fromstring(self.text.partition("\n")[2])
        except xml.etree.ElementTree.ParseError as error:
            harness.failed(f"{name}/is well-formed", error)

    def rows(self, table):
        """The texts of its cells, row by row."""
        if self.tree is None:
            return []
        html = "{http://www.w3.org/1999/xhtml}"
        found = self.tree.find(f".//{html}table[@class='{table}']")
        return [["".join(cell.itertext()).strip() for cell in row.iter(f"{html}td")] for row in found.iter(f"{html}tr")][1:]

    def check_table(self, err):
        """Every line of the table on standard error has its row here, with the same figures."""
        lines = [line.strip() for line in err.splitlines() if re.search(r"\d+\.\d\d +\d", line)]
        for line in lines:
            cells = re.split(r" {2,}", line)
            row = next((row for row in self.rows("ways") if row[0].splitlines()[0] == cells[0]), [])
            fits = len(row) == 6 and [row[2], row[3], row[5]] == [cells[1], cells[2], cells[-1]]
            harness.check(f"{self.name}/{cells[0]}", fits, f"{cells} is not {row}")
        known = [row[0].splitlines()[0] for row in self.rows("ways")]
        harness.check(f"{self.name}/known plans", lines and known[-3:] == ["data parallel", "FSDP", "Megatron"], known)


def check_page():
    page = FOLDER / "mlp.html"
    status, out, err = harness.weft("plan", MLP, "--machine", machine(4), "--page", page, "--quiet")
    if not harness.check("page/is made", status == 0 and out.startswith("weft: 1"), f"exit {status}: {err[-400:]}"):
        return
    made = Page("page", page)
    made.check_table(err)
    harness.check("page/has the schedule", out.strip() in made.text.replace("&quot;", '"').replace("&#10;", "\n"), out)
    harness.check("page/needs nothing else", not re.search(r"<script|src=|<link|url\(", made.text), "something is loaded")


def check_training():
    """Layers agree, and have a line together; what the user wrote stays."""
    model = harness.make_gpt2(FOLDER / "gpt2.onnx", "--layers", "3", "--width", "64", "--heads", "4", "--vocab", "256", "--context", "64")
    kept = FOLDER / "train.yaml"
    kept.write_text(TRAIN)
    file, text = plan("training", model, machine(2), "--train", kept)
    if file is None:
        return
    harness.check("training/keeps the user's text", text.startswith("weft: 1  # of the user\nmesh: ") and TRAIN.partition("\n")[2] in text, text)
    harness.check("training/few lines", len(text.splitlines()) <= 40, text)
    status, out, err = harness.weft("verify", model, "--schedule", file)
    harness.check("training/computes what one rank does", status == 0, f"exit {status}: {(out + err)[-400:]}")


def unstored_gpt(layers, width, heads):
    """A GPT whose weights are nowhere."""
    model = FOLDER / "large.onnx"
    maker = harness.ROOT / "test" / "models" / "unstored_gpt.py"
    sizes = ("--layers", layers, "--width", width, "--heads", heads, "--context", 2048)
    status, _, err = harness.run([sys.executable, maker, model, *map(str, sizes)])
    harness.check(f"{layers} layers/model", status == 0, err[-300:])
    return model


def cards(ranks):
    """A machine file with `ranks` H100, eight in each machine."""
    file = FOLDER / f"h100_{ranks}.yaml"
    of_32 = (harness.ROOT / "samples" / "machines" / "dgx-h100-x4.yaml").read_text()
    file.write_text(re.sub(r"ranks: 32", f"ranks: {ranks}", of_32))
    return file


def plan_large(name, model, ranks, batch, most):
    """The schedule's text, within so many seconds of a core."""
    flags = ("--target", "cuda", "--dim", f"batch={batch}", "--dim", "seq=2048", "--ranks", str(ranks))
    before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
    _, text = plan(name, model, cards(max(ranks, 64)), *flags)
    seconds = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - before
    harness.measured(f"{name}/seconds of a core", seconds <= most, f"{seconds:.1f}, at most {most}")
    harness.check(f"{name}/few lines", 3 < len(text.splitlines()) <= 15, text)
    return text


def check_size():
    """Layers of GPT-3 on eight GPUs; in full all of them on eight times eight, whose memory they need: a line for all layers."""
    layers, ranks = (96, 64) if harness.FULL else (8, 8)
    text = plan_large("size", unstored_gpt(layers, 12288, 96), ranks, 1, 10)
    wanted = ('"h.{l}.attn.c_attn.weight": {', "dim: 1, parts: 3", '"h.{l}.mlp.c_fc.weight": {') if harness.FULL else ('"h.{l}.attn.c_attn', "parts: 3")
    harness.check("size/the fused projection in its parts", all(part in text for part in wanted), text)


def check_many_nodes():
    """100,000 nodes on 1,024 ranks, in as much more memory as there are more nodes."""
    memory = []
    for layers, most in ((532, 30), (1064, 60)):
        plan_large(f"{layers} layers", unstored_gpt(layers, 16384, 128), 1024, 16, most)
        memory.append(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)
    harness.measured("memory by nodes", memory[1] < 2.2 * memory[0], f"{memory[0] >> 10} and {memory[1] >> 10} MiB")


def check_stages():
    """Where ranks reach each other slowly a training is a pipeline: what stages hand on is less than all gradients are."""
    slow = FOLDER / "slow.yaml"
    slow.write_text(HOST.format(ranks=2, capacity="8GB").replace("bandwidth: 1GB/s, latency: 5us", "bandwidth: 200MB/s, latency: 50us"))
    model, kept, file = (FOLDER / f"staged{end}" for end in (".onnx", ".kept.yaml", ".yaml"))
    status, _, err = harness.run([sys.executable, harness.ROOT / "samples" / "llama" / "make.py", model, "--width", "128", "--hidden", "320"])
    harness.check("stages/model", status == 0, err[-300:])
    kept.write_text(TRAIN.replace("batch: 8, seq: 32", "batch: 16, seq: 16"))
    status, _, err = harness.weft("plan", model, "--machine", slow, "--train", kept, "--level", "pipeline", "-o", file, "--page", FOLDER / "stages.html")
    if not harness.check("stages/are planned", status == 0, f"exit {status}: {err[-400:]}"):
        return
    harness.check("stages/where links are slow", re.search(r"^pipeline: {stages: 2, .*order: search, backward: split}  # saves", file.read_text(), re.M), err[-900:])
    page = Page("stages/page", FOLDER / "stages.html")
    page.check_table(err)
    harness.check("stages/page/has both", "stage 1" in page.text and "after fusion and overlap" in page.text, page.text[:300])
    sent = [row for row in page.rows("exchanges") if row[0].startswith("2 stages")]
    harness.check("stages/page/messages", sent and all(int(row[2]) > 0 for row in sent), sent)
    harness.check("stages/others are listed", "2 stages, 4 micro-batches, 1f1b" in err and "all ranks alike" in err, err[-900:])
    status, out, err = harness.weft("verify", model, "--schedule", file)
    harness.check("stages/compute what one rank does", status == 0, f"exit {status}: {(out + err)[-400:]}")


UNEVEN_TRAIN = """weft: 1
train:
  loss: {cross_entropy: {scores: scores, labels: labels}}
  inputs: {labels: "int64[384]"}
  optimizer: {adamw: {rate: 1e-3, epsilon: 1e-5}}
"""


def headed_model(name, rows, width, scores):
    """Four small layers, and a head that takes twice as long as all of them."""
    weights = [f'float[{width},{width}] "layer{l}.fc.weight" = random({l}, 0.1)' for l in range(4)]
    layers = "".join(
        f' ["layer{l}.fc"] "layer{l}.x" = MatMul("{"x" if l == 0 else f"layer{l - 1}.y"}", "layer{l}.fc.weight")'
        f' ["layer{l}.act"] "layer{l}.y" = Tanh("layer{l}.x")\n'
        for l in range(4))
    file = FOLDER / f"{name}.onnxtxt"
    file.write_text(
        f'<ir_version: 10, opset_import: ["" : 20]>\nm (float[{rows},{width}] x) => (float[{rows},{scores}] scores) <\n'
        + ",\n".join([*weights, f'float[{width},{scores}] "head.weight" = random(9, 0.1)'])
        + f'> {{\n{layers} [head] scores = MatMul("layer3.y", "head.weight")\n}}\n')
    return file


UNEVEN = """places:
  stage0: {ranks: [0], mesh: {tp: 1}}
  stage1: {ranks: [1, 2], mesh: {tp: 2}}
pipeline:  # saves """
UNEVEN_STAGES = """
  stages:
    stage0: "layer{0..3}.*"
    stage1: rest
  micro_batches: """


def check_uneven_stages():
    """A head that takes longer than all layers has more of the ranks: in a training over slow links, and where no rank has room for all."""
    for name, sizes, capacity, bandwidth, flags in (("training", (384, 128, 1024), "8GB", "200MB/s", ("--train", FOLDER / "uneven.kept.yaml")),
                                                    ("weights", (64, 256, 2048), "1500KB", "20MB/s", ())):
        model, on, file, page = headed_model("uneven", *sizes), *(FOLDER / f"uneven{end}" for end in (".machine.yaml", ".yaml", ".html"))
        (FOLDER / "uneven.kept.yaml").write_text(UNEVEN_TRAIN)
        on.write_text(HOST.format(ranks=3, capacity=capacity).replace("bandwidth: 1GB/s", f"bandwidth: {bandwidth}"))
        status, _, err = harness.weft("plan", model, "--machine", on, *flags, "--level", "pipeline", "-o", file, "--page", page)
        if not harness.check(f"uneven {name}/is planned", status == 0, f"exit {status}: {err[-400:]}"):
            continue
        text = file.read_text()
        harness.check(f"uneven {name}/places", UNEVEN in text and UNEVEN_STAGES in text and '  "head.weight": {tp: 1}' in text, text)
        others = [float(row[1]) for row in re.findall(r"^  (\S.*?) {2,}\S+ \S+ {2,}(\d+\.\d+) ", err, re.M) if not row[0].startswith("stages on 1, 2 ranks, ")]
        harness.check(f"uneven {name}/is faster than others", len(others) >= 2 - (name == "weights") and min(others) >= 1.05, err[-900:])
        harness.check(f"uneven {name}/page", "tp 2" in page.read_text() and "in 2 stages" in page.read_text(), "no stages")
        Page(f"uneven {name}/page", page).check_table(err)
        if name == "training" and not harness.FULL:  # its kernels take long to build
            continue
        status, out, err = harness.weft("verify", model, "--schedule", file)
        harness.check(f"uneven {name}/computes what one rank does", status == 0, f"exit {status}: {(out + err)[-400:]}")


def check_stages_for_memory():
    """Where no rank has the memory for all layers, stages may have; else the least that any schedule takes is said."""
    model = harness.make_gpt2(FOLDER / "small.onnx", "--layers", "2", "--width", "64", "--heads", "4", "--vocab", "128", "--context", "32")
    flags = ("--dim", "batch=16", "--dim", "seq=32", "--level", "pipeline")
    status, out, err = harness.weft("plan", model, "--machine", machine(2, "900KB"), *flags)
    harness.check("memory/stages", status == 0 and "pipeline: {stages: 2, " in out and "no layouts run here without stages" in out, out + err[-900:])
    harness.check("memory/what takes too much", re.search(r"dp 2 +too little memory", err), err[-900:])
    status, _, err = harness.weft("plan", model, "--machine", machine(2, "400KB"), *flags)
    harness.check("memory/none", status == 1 and re.search(r"schedules can run on this machine \(\d+ of them: too little memory\) \[plan-none\]", err) and "580.8 KiB" in err, err[-900:])
    status, _, err = harness.weft("plan", model, "--machine", machine(3, "5KB"), *flags)
    harness.check("memory/none for any stage", status == 1 and "[plan-none]" in err, f"exit {status}: {err[-900:]}")


def check_layouts_that_just_fit():
    """Where the programs of the first layouts need a little more than there is, layouts that need less are found."""
    weights, nodes = [], []
    for layer in range(3):
        weights.append(f"float[24, 40] u{layer} = random({2 * layer + 1}, 0.2), float[40, 24] d{layer} = random({2 * layer + 2}, 0.2)")
        nodes.append(f"a{layer} = MatMul(x{layer}, u{layer}) b{layer} = Gelu(a{layer}) x{layer + 1} = MatMul(b{layer}, d{layer})")
    model = FOLDER / "narrow.onnxtxt"
    model.write_text('<ir_version: 10, opset_import: ["" : 20]>\n'
                     f"m (float[8, 24] x0) => (float[8, 24] x3) <{', '.join(weights)}> {{ {' '.join(nodes)} }}\n")
    for capacity in (12096, 16127, 20160):
        status, _, err = harness.weft("plan", model, "--machine", machine(4, f"{capacity}B"), "--quiet", "-o", FOLDER / "narrow.yaml")
        harness.check(f"just fits/{capacity}", status == 0 and "too little memory" in err and "1.00 " in err, f"exit {status}: {err[-600:]}")


def check_recomputation():
    """A training whose values no rank has the memory for computes some of them again."""
    model = harness.make_gpt2(FOLDER / "recomputed.onnx", "--layers", "1", "--width", "32", "--heads", "4", "--vocab", "64", "--context", "64")
    kept, file = FOLDER / "recomputed.kept.yaml", FOLDER / "recomputed.yaml"
    kept.write_text(TRAIN.replace("seq: 32", "seq: 64"))
    fast = FOLDER / "fast.yaml"  # no transform gains anything
    fast.write_text(HOST.format(ranks=2, capacity="1500KB").replace("bandwidth: 1GB/s, latency: 5us", "bandwidth: 1000GB/s, latency: 10ns"))
    flags = ("--machine", fast, "--train", kept, "-o", file)
    status, _, err = harness.weft("plan", model, *flags, "--level", "transforms")
    if not harness.check("recomputation/is planned", status == 0 and ", recomputed" in err, f"exit {status}: {err[-600:]}"):
        return
    harness.check("recomputation/is written", "  recompute: {limit: 1500000B}  # without it" in file.read_text(), file.read_text())
    status, out, err = harness.weft("verify", model, "--schedule", file)
    harness.check("recomputation/computes what one rank does", status == 0, f"exit {status}: {(out + err)[-400:]}")


def check_transforms():
    """A collective that can be hidden by concurrent computation."""
    model = harness.make_gpt2(FOLDER / "hidden.onnx", "--layers", "2", "--width", "256", "--heads", "8", "--vocab", "512", "--context", "128")
    file, sizes = FOLDER / "transformed.yaml", ("--dim", "batch=1", "--dim", "seq=128")
    status, _, err = harness.weft("plan", model, "--machine", machine(2), "--level", "transforms", "-o", file, *sizes)
    if not harness.check("transforms/are planned", status == 0, f"exit {status}: {err[-400:]}"):
        return
    harness.check("transforms/overlap", re.search(r"^  - overlap: {ops: .*}  # saves", file.read_text(), re.M) and ", transformed" in err, file.read_text() + err[-900:])
    status, out, err = harness.weft("verify", model, "--schedule", file, *sizes)
    harness.check("transforms/compute what one rank does", status == 0, f"exit {status}: {(out + err)[-400:]}")


def check_savings():
    """Above the layouts, an entry saves what the whole program would take longer without it."""
    model, file, without = FOLDER / "side.onnxtxt", FOLDER / "side.yaml", FOLDER / "side.without.yaml"
    model.write_text(SIDE)
    fast = FOLDER / "fast.yaml"
    fast.write_text(HOST.format(ranks=2, capacity="8GB").replace("bandwidth: 1GB/s, latency: 5us", "bandwidth: 10GB/s, latency: 100ns"))
    status, _, err = harness.weft("plan", model, "--machine", fast, "--level", "transforms", "-o", file)
    if not harness.check("savings/are planned", status == 0 and "  # saves" in file.read_text(), f"exit {status}: {err[-400:]}"):
        return

    def nanoseconds(schedule):
        status, out, err = harness.weft("explain", model, "--schedule", schedule, "--machine", fast, "--json", "--quiet")
        return json.loads(out)["timeline"]["seconds"] * 1e9 if status == 0 else -1

    whole, lines = nanoseconds(file), file.read_text().splitlines(keepends=True)
    for number, line in enumerate(lines):
        if said := re.search(r'^  "(\w+)": .*# saves ([0-9.]+) ns$', line):
            without.write_text("".join(lines[:number] + lines[number + 1:]))
            saves = nanoseconds(without) - whole
            harness.check(f"savings/of {said[1]}", abs(saves - float(said[2])) <= 1, f"{line.strip()}: {saves}")


def check_kept_layouts():
    """The user's choices stay, and the rest is chosen to fit them."""
    kept = FOLDER / "kept_mesh.yaml"
    kept.write_text('weft: 1\nmesh: {a: 2, b: 2}\nshard:\n  "fc_weight": {b: 1}  # mine\n')
    file, text = plan("kept", MLP, machine(4), "--keep", kept)
    if file is None:
        return
    harness.check("kept/stays", text.startswith(kept.read_text()) and text.count("mesh:") == 1 and text.count('"fc_weight"') == 1, text)
    status, _, err = harness.weft("plan", MLP, "--machine", machine(4), "--keep", kept)
    harness.check("kept/beside nothing added", status == 0 and "a 2 x b 2, nothing added" in err, err[-400:])
    status, out, err = harness.weft("verify", MLP, "--schedule", file)
    harness.check("kept/computes what one rank does", status == 0, f"exit {status}: {(out + err)[-400:]}")


def check_auto():
    program = FOLDER / "auto"
    status, _, err = harness.weft("compile", MLP, "--auto", "--machine", machine(2), "-o", program, "--page", FOLDER / "auto.html")
    if harness.check("auto/compiles", status == 0 and "of the best" in err, f"exit {status}: {err[-400:]}"):
        status, out, _ = harness.run([program, "--info"])
        Page("auto/page", FOLDER / "auto.html").check_table(err)
        harness.check("auto/for the ranks of the machine", status == 0 and json.loads(out)["ranks"] == 2, out[:300])
    for name, flags in {"no machine": ("--auto",), "level alone": ("--level", "pipeline")}.items():
        status, _, err = harness.weft("compile", MLP, "-o", program, *flags)
        harness.check(f"auto/{name}", status == 2 and "--auto" in err, f"exit {status}: {err[-300:]}")


# For each kind of model: the script that writes it, the kept schedule, and the usual slicing over four ranks.
SAMPLES = {
    "llama": ("llama/make.py", ("--groups", "4", "--width", "256", "--hidden", "640"), "dims: {batch: 1, seq: 32}\n", ("llama/tp2.yaml",)),
    "llama, two groups": ("llama/make.py", ("--width", "256", "--hidden", "640"), "dims: {batch: 1, seq: 32}\n", ("llama/tp4.yaml",)),
    "gpt2": ("gpt2/make.py", ("--layers", "2", "--width", "256", "--heads", "8", "--vocab", "512", "--context", "64"),
             "dims: {batch: 1, seq: 32}\n", ("gpt2/tp4.yaml",)),
    "moe": ("moe/make.py", ("--width", "128", "--inner", "512", "--capacity", "6"), "dims: {groups: 4, tokens: 32}\n",
            ("moe/experts.yaml", "moe/exchanged.yaml", "moe/replicated.yaml")),
}


def check_nothing_to_compute():
    """No figure is missing where nothing is computed."""
    model, page = FOLDER / "nothing.onnxtxt", FOLDER / "nothing.html"
    model.write_text('<ir_version: 10, opset_import: ["" : 20]>\nm (float[4,8] x) => (float[4,8] y) { [y] y = Identity(x) }\n')
    for level in ("shard", "transforms"):
        status, _, err = harness.weft("plan", model, "--machine", machine(2), "--level", level, "--page", page, "--quiet")
        harness.check(f"nothing/{level}", status == 0 and "1.00" in err and "nan" not in err + page.read_text(), f"exit {status}: {err[-300:]}")


def check_target():
    """A machine of GPUs is planned for, and compiled for, as one."""
    machine_file = harness.ROOT / "samples" / "machines" / "dgx-h100.yaml"
    plan("mlp on GPUs", MLP, machine_file)
    sources = FOLDER / "mlp_on_gpus"
    words = ("compile", MLP, "--auto", "--machine", machine_file, "--ranks", "2", "--emit", "source", "-o", sources, "--quiet")
    status, _, err = harness.run([harness.WEFT, *words])
    harness.check("target/compiled", status == 0 and list(sources.glob("**/*.cu")), f"exit {status}: {err[-300:]}")
    refused("target that the machine has not", 1, "[machine-target]", flags=("--machine", machine_file, "--target", "host"))


def sent(model, schedule, *flags):
    """How many collectives there are, and the bytes that a rank sends."""
    status, out, err = harness.weft("explain", model, "--schedule", schedule, "--json", "--quiet", *flags)
    if not harness.check(f"samples/{schedule.name} is explained", status == 0, f"exit {status}: {err[-300:]}"):
        return 0, 0
    rows = [row for row in json.loads(out)["collectives"] if row["bytes"] > 0]
    return len(rows), sum(row["bytes"] for row in rows)


def check_samples():
    """Plans for samples send no more than the schedules that people wrote for them."""
    for name, (maker, sizes, kept, by_hand) in SAMPLES.items():
        model = FOLDER / ("sample.onnxtxt" if "moe" in maker else "sample.onnx")
        status, _, err = harness.run([sys.executable, harness.ROOT / "samples" / maker, model, *sizes])
        harness.check(f"samples/{name}/model", status == 0, err[-300:])
        (FOLDER / "kept.yaml").write_text("weft: 1\n" + kept)
        file, text = plan(f"sample of {name}", model, machine(4), "--keep", FOLDER / "kept.yaml")
        if file is None:
            continue
        count, size = sent(model, file)
        dims = [flag for dim in re.findall(r"\w+: \d+", kept) for flag in ("--dim", dim.replace(": ", "="))]
        for schedule in by_hand:
            axis = re.search(r"^mesh: {(\w+):", (harness.ROOT / "samples" / schedule).read_text(), re.M).group(1)
            others, most = sent(model, harness.ROOT / "samples" / schedule, "--mesh", f"{axis}=4", *dims)
            harness.check(f"samples/{name}/sends no more than {schedule}", 0 < size <= most, f"{size} bytes in {count}, by hand {most} in {others}: {text}")


ANNOTATED = """<ir_version: 11, opset_import: ["" : 20], configuration: ["two" : 2]>
m (float[8, 8] x) => (float[8, 8] y) <float[8, 8] w = random(1, 0.5)> {
  [mm] y = MatMul(x, w) @ two { w [1: 2] [0, 1] }
}
"""


def refused(name, code, *says, kept="weft: 1\n", flags=(), model=MLP):
    file = FOLDER / "kept.yaml"
    file.write_text(kept)
    status, _, err = harness.weft("plan", model, "--keep", file, *flags)
    harness.check(f"refused/{name}", status == code and all(text in err for text in says), f"exit {status}: {err[-400:]}")


def check_pipes():
    """A machine, a schedule and a model that can be read only once, two of them from writers that come late."""
    kept, model = FOLDER / "kept.pipe", FOLDER / "pipe.onnxtxt"
    for pipe in (kept, model):
        os.mkfifo(pipe)
    writers = [subprocess.Popen(["/bin/sh", "-c", f"sleep 0.3; exec {command}"]) for command in (f"echo 'weft: 1 # kept' > {kept}", f"cat {MLP} > {model}")]
    status, out, err = harness.weft("plan", model, "--machine", "/dev/stdin", "--keep", kept, "--level", "transforms", input=machine(4).read_text())
    harness.check("pipes", status == 0 and "weft: 1 # kept" in out and "mesh: {" in out, f"exit {status}: {(out + err)[-400:]}")
    for writer in writers:
        writer.kill()  # one that nobody read from
        writer.wait()


def check_results():
    """A plan replaces the schedule that it keeps all of, and nothing else that it reads."""
    schedule, on = FOLDER / "in_place.yaml", machine(4)
    schedule.write_text("weft: 1  # of the user\n")
    status, _, err = harness.weft("plan", MLP, "--machine", on, "--keep", schedule, "-o", schedule)
    harness.check("in place", status == 0 and re.match(r"weft: 1  # of the user\nmesh: \{", schedule.read_text()), f"exit {status}: {err[-300:]}")
    before, link = on.read_text(), FOLDER / "link.yaml"
    link.symlink_to(on)
    for name in (on, link):
        status, _, err = harness.weft("plan", MLP, "--machine", on, "-o", name)
        harness.check(f"over the machine/{name.name}", status == 2 and "would overwrite" in err and on.read_text() == before, f"exit {status}: {err[-300:]}")


def check_refusals():
    on = ("--machine", machine(4))
    refused("ranks", 1, "a plan for 5 ranks: the machine has 4 [plan-ranks]", flags=(*on, "--ranks", "5"))
    refused("ranks of a mesh", 1, "the mesh has 2 ranks, --ranks says 4 [plan-ranks-of-mesh]", kept="weft: 1\nmesh: {tp: 2}\n", flags=(*on, "--ranks", "4"))
    refused("layouts without a mesh", 1, "kept.yaml:3", kept='weft: 1\nshard:\n  "fc_weight": {tp: 1}\n', flags=on)
    refused("layouts that contradict", 1, "[shard-twice]", kept='weft: 1\nmesh: {tp: 4}\nshard:\n  "fc_weight": {tp: 1}\n  "fc_*": {tp: 0}\n', flags=on)
    refused("memory", 1, "[plan-memory]", "4 ranks of", "at least, most for '", flags=("--machine", machine(4, "512B")))
    refused("mesh of stages", 3, "a plan chooses 'mesh': leave it out [plan-kept-unsupported]", kept="weft: 1\nmesh: {tp: 2}\n", flags=(*on, "--level", "pipeline"))
    refused("transforms", 3, "a plan chooses 'transform'", kept="weft: 1\nmesh: {tp: 2}\ntransform:\n  - split: {op: x, dim: 0, into: [a, b]}\n", flags=on)
    annotated = FOLDER / "annotated.onnxtxt"
    annotated.write_text(ANNOTATED)
    refused("annotations", 1, f"{annotated}: error: the model's device annotations say", "`annotations: none` [plan-annotated]", model=annotated, flags=on)
    status, out, err = harness.weft("plan", annotated, "--machine", on[1], "--keep", "/dev/stdin", input="weft: 1\nannotations: none\n")
    harness.check("annotations left out", status == 0 and "annotations: none" in out, f"exit {status}: {err[-400:]}")
    refused("level", 2, "--level", flags=(*on, "--level", "best"))
    flow = 'weft: 1\nmesh: {tp: 4}\nshard: {"fc_weight": {tp: 1}}\n'
    refused("entries on one line", 1, "kept.yaml:3:1", "entries can be added only", "[schedule-style]", kept=flow, flags=on)
    refused("all on one line", 1, "kept.yaml:1:2", "[schedule-style]", kept="{weft: 1, mesh: {tp: 4}}\n", flags=on)
    refused("no machine", 2, "--machine")
    status, _, err = harness.weft("plan", MLP, "--keep", FOLDER / "absent.yaml", *on)
    harness.check("refused/no such file", status == 1 and "[plan-kept-unreadable]" in err, f"exit {status}: {err[-300:]}")
    refused("two schedules", 2, "plan takes one --keep, or --train", flags=(*on, "--train", FOLDER / "kept.yaml"))
    refused("size of no whole byte", 1, "capacity must be a size", "[schedule-bytes]", flags=("--machine", machine(4, "0.5B")))
    refused("size over all numbers", 1, "a whole number of bytes from 1 to", "[schedule-bytes]", flags=("--machine", machine(4, "9" * 20)))
    refused("unknown dim", 1, "[unknown-dim]", kept="weft: 1\ndims: {nothing: 2}\n", flags=on)


if __name__ == "__main__":
    harness.need_weft()
    check_inference()
    check_page()
    check_training()
    check_size()
    check_stages()
    check_uneven_stages()
    check_stages_for_memory()
    check_layouts_that_just_fit()
    check_recomputation()
    check_transforms()
    check_savings()
    check_kept_layouts()
    check_auto()
    check_target()
    check_nothing_to_compute()
    if harness.FULL:
        check_many_nodes()
        check_samples()
    check_pipes()
    check_results()
    check_refusals()
