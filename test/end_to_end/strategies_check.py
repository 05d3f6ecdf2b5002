# test: slow
"""No product or convolution of more than a million operations runs as plain loops: six kinds of models, fp32 and fp16, for
the host and for cuda. The table counts kernels by strategy, as their manifests name them."""

import collections
import json
import pathlib
import subprocess
import sys

import harness
import onnx

ROOT = harness.ROOT
for folder in ("test/models", "test/bench", "samples/gpt2"):
    sys.path.insert(0, str(ROOT / folder))
from resnet50 import ResNet  # noqa: E402
from transformers import Transformer, halve  # noqa: E402

SCRIPTS = {
    "gpt2": ("samples/gpt2/make.py", ["--layers", 2, "--width", 128, "--heads", 4], ["--dim", "batch=1", "--dim", "seq=64"]),
    "llama": ("samples/llama/make.py", ["--width", 128, "--hidden", 320], ["--dim", "batch=2", "--dim", "seq=64"]),
}


def models(folder):
    """(name, file, flags) of each model in fp32 and in fp16."""
    for name, (script, flags, dims) in SCRIPTS.items():
        path = folder / f"{name}.onnx"
        status, _, err = harness.run([sys.executable, ROOT / script, path, *flags])
        if not harness.check(f"{name}/made", status == 0, err[-300:]):
            continue
        yield from in_both_types(folder, name, onnx.load(path), dims)
    for name in ("bert", "vit", "whisper"):
        yield from in_both_types(folder, name, getattr(Transformer(), name)(), [])
    yield from in_both_types(folder, "resnet50", ResNet().model(), [])


def in_both_types(folder, name, model, flags):
    for kind in ("fp32", "fp16"):
        path = folder / f"{name}_{kind}.onnx"
        onnx.save(halve(model) if kind == "fp16" else model, path)
        yield f"{name}/{kind}", path, flags


def counts(manifest):
    """Kernels by the name of their strategy, without its parameters."""
    return collections.Counter(kernel["strategy"].split(" ")[0].rstrip(",") for kernel in manifest["kernels"])


def check_model(folder, name, path, flags, target, table):
    source = folder / f"{path.stem}_{target}"
    status, _, err = harness.weft("compile", path, *flags, "--target", target, "--emit", "source", "-o", source)
    if not harness.check(f"{name}/{target}/compiles", status == 0, f"exit {status}: {err[-300:]}"):
        return
    slow = [line for line in err.splitlines() if "[plain-loops]" in line]
    harness.check(f"{name}/{target}/no large contraction in plain loops", not slow, "; ".join(slow)[:500])
    table[name, target] = counts(json.loads((source / "manifest.json").read_text()))


def print_table(table):
    names = sorted({strategy for row in table.values() for strategy in row})
    for (model, target), row in table.items():
        print(f"{model:<14}{target:<6}" + ", ".join(f"{row[name]} {name}" for name in names if row[name]))


def check_warning(folder):
    """The warning that the others must not cause, caused: a product of 64-bit integers has no better way."""
    model = folder / "integers.onnxtxt"
    model.write_text('<ir_version: 8, opset_import: ["" : 17]>\n'
                     "m (int64[128,128] a, int64[128,128] b) => (int64[128,128] y) { y = MatMul(a, b) }\n")
    status, _, err = harness.weft("compile", model, "--emit", "source", "-o", folder / "integers")
    harness.check("integers/warned of", status == 0 and "[plain-loops]" in err, err[-300:])


def check_vectors(folder):
    """The passes of a TopK over a line are vector operations, also where k is known: g++ says so of lines in their loops."""
    model, source = folder / "first.onnxtxt", folder / "first"
    model.write_text('<ir_version: 8, opset_import: ["" : 17]>\n'
                     "first (float[9,500] x) => (float[9,1] y, int64[9,1] at) <int64[1] k = {1}> { y, at = TopK(x, k) }\n")
    harness.weft("compile", model, "--emit", "source", "-o", source)
    told = subprocess.run(["g++", "-std=c++20", "-O3", "-march=x86-64-v3", "-fno-math-errno", "-fno-trapping-math", "-fwrapv",
                           "-fopenmp-simd", "-w", f"-I{ROOT}/runtime_lib/include", "-S", source / "kernels" / "reduction.cpp",
                           "-o", "/dev/null", "-fopt-info-vec-optimized"], capture_output=True, text=True).stderr
    lines = (ROOT / "runtime_lib/include/weft/top_k.h").read_text().splitlines()
    vectors = {int(line.split("top_k.h:")[1].split(":")[0]) for line in told.splitlines() if "top_k.h:" in line}
    loops = [i + 2 for i, line in enumerate(lines) if "omp simd reduction" in line][:2]  # their first lines
    for name, first in zip(("greatest", "place"), loops):
        harness.check(f"top_k/{name}/vectors", vectors & {first + 1, first + 2, first + 3}, f"{first}: {sorted(vectors)}")


if __name__ == "__main__":
    harness.need_weft()
    FOLDER = pathlib.Path(harness.scratch("strategies"))
    TABLE = {}
    for NAME, PATH, FLAGS in models(FOLDER):
        for TARGET in ("host", "cuda"):
            check_model(FOLDER, NAME, PATH, FLAGS, TARGET, TABLE)
    print_table(TABLE)
    check_warning(FOLDER)
    check_vectors(FOLDER)
