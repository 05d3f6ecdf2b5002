# test: slow, long
"""--target cuda with the real nvcc. A sixth of the fixtures and every sample compile without spills for one
architecture, chosen by a hash of the name (`full`: all, for each). An executable without a GPU reports that. Equal
inputs give equal bytes. In `full`, GPT-2 small compiles in time, and so do the public models that the host target
builds."""

import filecmp
import os
import pathlib
import re
import sys
import time
import zlib

import harness

sys.path.insert(0, str(harness.ROOT / "test" / "conformance"))
from models_check import DIMS, NEEDED  # noqa: E402

GPT2 = harness.ROOT / "samples" / "gpt2"
MLP = harness.ROOT / "samples" / "mlp"
FIXTURES = harness.ROOT / "test" / "fixtures"
ARCHS = ["sm_80", "sm_90"]
COMPILE_SECONDS = 60
START_SECONDS = 1

# Kernels that may spill: none does.
SPILLS = ()


def nvcc():
    """The nvcc that the compiler takes, as `weft doctor` names it, or None."""
    status, out, _ = harness.weft("doctor", "--target", "cuda")
    folder = re.search(r"CUDA toolkit +(\S+)", out)
    return pathlib.Path(folder.group(1)) / "bin" / "nvcc" if status == 0 and folder else None


def archs_of(name):
    return ARCHS if harness.FULL else [ARCHS[zlib.crc32(name.encode()) % len(ARCHS)]]


def spilling(compiler, source, folder, archs):
    """(error text, kernels with spills) of a .cu file."""
    flags = ["-std=c++20", "-O3", "-w", "--expt-relaxed-constexpr", "-Xptxas", "-v", "-I", folder / "runtime_lib" / "include"]
    found = []
    for arch in archs:
        status, out, err = harness.run([compiler, *flags, f"-arch={arch}", "-cubin", "-o", folder / "probe.cubin", source])
        if status != 0:
            return err or out, []
        for block in (out + err).split("Compiling entry function")[1:]:
            spilled = re.search(r"(\d+) bytes spill stores", block)
            if spilled and int(spilled.group(1)):
                found.append(block.split("'")[1])
    return "", found


def check_program(compiler, name, model, flags, folder):
    source = folder / name.replace("/", "_")
    status, _, err = harness.weft("compile", model, *flags, "--target", "cuda", "--arch", ",".join(ARCHS), "--emit", "source", "-o", source)
    if status == 3:
        harness.skipped(name, f"refused: {err.strip().splitlines()[0] if err.strip() else ''}")
        return
    if status != 0:
        harness.failed(name, f"exit {status}: {err[-300:]}")
        return
    bad = []
    for kernel_file in sorted((source / "kernels").glob("*.cu")) if (source / "kernels").exists() else []:
        error, spills = spilling(compiler, kernel_file, source, archs_of(name))
        bad += [f"{kernel_file.name}: {error[-300:]}"] if error else []
        bad += [f"{kernel} spills" for kernel in spills if not any(word in kernel for word in SPILLS)]
    harness.check(name, not bad, "; ".join(bad))


def build(model, flags, output, arch="sm_90"):
    status, _, err = harness.weft("compile", model, *flags, "--target", "cuda", "--arch", arch, "-o", output)
    if status != 0:
        raise RuntimeError(f"exit {status}: {err[-300:]}")
    return output


def check_without_gpu(program):
    if pathlib.Path("/dev/nvidia0").exists():
        harness.skipped("no GPU", "this machine has one")
        return
    start = time.monotonic()
    status, _, err = harness.run([program, "--random-inputs", "1"])
    seconds = time.monotonic() - start
    lines = err.strip().splitlines()
    ok = status == 6 and len(lines) == 1 and "no CUDA device" in lines[0] and seconds < START_SECONDS
    harness.measured("no GPU", ok, f"exit {status} after {seconds:.2f} s: {err[-200:]}")
    for flag in ("--help", "--info"):
        status, out, err = harness.run([program, flag])
        harness.check(f"no GPU/{flag}", status == 0 and out, f"exit {status}: {err[-200:]}")
    half = {key: value for key, value in os.environ.items() if key not in ("RANK", "WORLD_SIZE")}
    status, _, err = harness.run([program, "--random-inputs", "1"], env=dict(half, RANK="0"))
    harness.check("half a launcher", status == 6 and len(err.strip().splitlines()) == 1, f"exit {status}: {err[-300:]}")


def check_equal_bytes(folder):
    homes = [folder / "first", folder / "another" / "folder"]
    for home in homes:
        home.mkdir(parents=True)
        build(MLP / "mlp.onnxtxt", ["--schedule", MLP / "tp2_overlap.yaml"], home / "program")
    same = filecmp.cmp(homes[0] / "program", homes[1] / "program", shallow=False)
    harness.check("equal bytes", same, "two builds in different folders differ")


def check_large(compiler, folder):
    model = harness.make_gpt2(folder / "gpt2.onnx")
    dims = ["--dim", "batch=1", "--dim", "seq=128"]
    start = time.monotonic()
    build(model, [*dims, "--schedule", GPT2 / "tp2.yaml"], folder / "gpt2_small_tp2")
    seconds = time.monotonic() - start
    harness.measured("gpt2 12 layers", seconds < COMPILE_SECONDS, f"{seconds:.1f} s for one architecture; limit {COMPILE_SECONDS} s")
    pack = harness.corpus_pack("models")
    if pack is None:
        harness.skipped("models", "the corpus is not on this machine (WEFT_CORPUS)")
        return
    for name in NEEDED:
        flags = [f"--dim={dim}={length}" for dim, length in DIMS.get(name.split("/")[0], {}).items()]
        check_program(compiler, f"model/{name}", pack / "models" / f"{name}.onnx", flags, folder)


def main():
    compiler = nvcc()
    if compiler is None:
        harness.skipped("nvcc", "no CUDA toolkit, or the compiler was built without one")
        return
    folder = harness.scratch("cuda_build")
    for model in sorted(FIXTURES.glob("*.onnxtxt")):
        if not model.stem.startswith("fail_") and (harness.FULL or zlib.crc32(model.stem.encode()) % 12 == 0):
            check_program(compiler, f"fixture/{model.stem}", model, ["--schedule", model.with_suffix(".yaml")], folder)
    for schedule in sorted(MLP.glob("*.yaml")):
        check_program(compiler, f"mlp/{schedule.stem}", MLP / "mlp.onnxtxt", ["--schedule", schedule], folder)
    small, cached = folder / "small.onnx", folder / "cached.onnx"
    size = ["--layers", "4", "--width", "64", "--heads", "4", "--vocab", "503", "--context", "64"]
    harness.make_gpt2(small, *size)
    harness.make_gpt2(cached, *size, "--vocab", "50257", "--context", "512", "--past")
    for schedule in sorted(GPT2.glob("*.yaml")):
        if not harness.FULL and zlib.crc32(schedule.stem.encode()) % 2:
            continue
        decodes = schedule.stem.startswith(("decode", "generate"))  # of the model with its cache as inputs; says the dims itself
        model, dims = (cached, []) if decodes else (small, ["--dim=batch=2", "--dim=seq=32"])
        check_program(compiler, f"gpt2/{schedule.stem}", model, [*dims, "--schedule", schedule], folder)
    check_without_gpu(build(MLP / "mlp.onnxtxt", [], folder / "mlp"))
    check_equal_bytes(folder)
    if harness.FULL:
        check_large(compiler, folder)


harness.need_weft()
main()
