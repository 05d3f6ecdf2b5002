"""Packs what a machine with a GPU needs to test the cuda target: emitted sources, inputs, expected outputs, the runtime.

    pack.py FOLDER [--only PATTERN] [--rounds N]
The folder builds and runs with cmake, nvcc and python3 alone: FOLDER/run.
"""

import argparse
import fnmatch
import hashlib
import json
import os
import pathlib
import re
import shutil
import sys

import numpy as np

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
import harness  # noqa: E402

HERE = pathlib.Path(__file__).resolve().parent
MODELS = HERE / "models"
MLP = harness.ROOT / "samples" / "mlp"
GPT2 = harness.ROOT / "samples" / "gpt2"
FIXTURES = harness.ROOT / "test" / "fixtures"
TRAINING = harness.ROOT / "samples" / "training"
PIPELINES = harness.ROOT / "samples" / "pipelines"
ITERATIONS = 3  # the second captures a graph, the third replays it
GPT2_SIZES = ("--layers", "4", "--width", "192", "--heads", "4", "--vocab", "1003", "--context", "128")
GPT2_DIMS = ("--dim", "batch=2", "--dim", "seq=64")
GPT2_VOCABULARY = 1003
TRAINED_SIZES = ("--layers", "2", "--width", "64", "--heads", "4", "--vocab", "256", "--context", "64")
STEPS = 8  # of a training
# Pipelines of a training in an order that is searched, on 4 ranks and on 2: what stands for what in the sample. The other
# placements have more streams than a GPU has queues, if their ranks share one.
PLACEMENTS = {"train_v": ("", ""), "train_v2": ('"], b: "layer1.*", c: "layer2.*", d: rest', '", "layer1.*"], b: rest')}
PLACED_TOKENS = {"high": 64, "size": (64, 16)}
LARGE = ("long_rows",)  # fixtures whose data does not travel
# Of the large operators: what they move, or compute, at least.
SPEED = {
    "matmul_f32": {"flop": 2 * 4096**3, "ceiling": "fp32_tflop_s"},
    "matmul_bf16": {"flop": 2 * 8192**3, "ceiling": "bf16_tflop_s"},
    "pointwise": {"bytes": 3 * 4 * 8192**2, "ceiling": "copy_gb_s"},
    "layer_norm": {"bytes": 2 * 4 * 16384 * 4096, "ceiling": "copy_gb_s"},
    "softmax": {"bytes": 2 * 4 * 65536 * 1024, "ceiling": "copy_gb_s"},
    "transpose": {"bytes": 2 * 4 * 8192**2, "ceiling": "copy_gb_s"},
}
NUMPY_TYPES = {"f32": np.float32, "f64": np.float64, "f16": np.float16, "i8": np.int8, "i16": np.int16, "i32": np.int32,
               "i64": np.int64, "u8": np.uint8, "u16": np.uint16, "u32": np.uint32, "u64": np.uint64, "bool": np.bool_}


class PackError(RuntimeError):
    pass


def compiled(*arguments):
    status, _, err = harness.weft("compile", *arguments, "--quiet")
    if status not in (0, 3):
        raise PackError(f"weft compile {' '.join(map(str, arguments))}: exit {status}: {err[-600:]}")
    return status, err


def random_array(random, port, high):
    kind, shape = NUMPY_TYPES[port["dtype"]], port["shape"]
    if np.issubdtype(kind, np.floating):
        return random.uniform(-1, 1, shape).astype(kind)
    return random.integers(0, 2 if kind is np.bool_ else high, shape).astype(kind)


class Pack:
    def __init__(self, folder, only):
        self.folder, self.only = folder, only
        self.scratch = harness.scratch("gpu_pack")
        self.programs, self.refused = [], []
        self.weights = {}  # by hash: the file that holds them already

    def wants(self, name):
        return fnmatch.fnmatch(name, self.only)

    def reference(self, name, model, flags, iterations=ITERATIONS, high=2):
        """Inputs and what the host target makes of them, as files below data/NAME; None where the host refuses."""
        program, data = self.scratch / name, self.folder / "data" / name
        status, err = compiled(model, *flags, "-o", program)
        if status == 3:
            raise PackError(f"{name}: the host target refuses it: {err[-300:]}")
        info = json.loads(harness.run([program, "--info"])[1])
        states = {state["input"] for state in info["states"]}
        random = np.random.default_rng(20)
        inputs = {}
        for port in info["inputs"]:
            if port["name"] in states:
                continue
            file = data / f"input_{len(inputs)}.npy"
            file.parent.mkdir(parents=True, exist_ok=True)
            np.save(file, random_array(random, port, high))
            inputs[port["name"]] = file
        given = [word for name, file in inputs.items() for word in ("--input", f"{name}={file}")]
        status, _, err = harness.run([program, *given, "--iterations", iterations, "--output-dir", data / "wanted"])
        if status != 0:
            raise PackError(f"{name} on the host: exit {status}: {err[-600:]}")
        return {"inputs": {name: str(file.relative_to(self.folder)) for name, file in inputs.items()},
                "wanted": str((data / "wanted").relative_to(self.folder)), "iterations": iterations}

    def losses(self, name, model, flags, data):
        """Data of a training, as files below data/NAME, and the losses of the host target's steps."""
        program, log = self.scratch / name, self.scratch / f"{name}.jsonl"
        folder = self.folder / "data" / name
        folder.mkdir(parents=True, exist_ok=True)
        files = {value: shutil.copy(file, folder) for value, file in data.items()}
        compiled(model, *flags, "-o", program)
        given = [word for value, file in files.items() for word in ("--data", f"{value}={file}")]
        status, _, err = harness.run([program, *given, "--shuffle", "--steps", STEPS, "--log", log])
        if status != 0:
            raise PackError(f"{name} on the host: exit {status}: {err[-600:]}")
        return {"data": {value: str(pathlib.Path(file).relative_to(self.folder)) for value, file in files.items()}, "steps": STEPS,
                "losses": [json.loads(line)["loss"] for line in log.read_text().splitlines()]}

    def share_weights(self, file):
        """The same weights under several schedules are one file."""
        if not file.exists():
            return
        digest = hashlib.sha256(file.read_bytes()).hexdigest()
        first = self.weights.setdefault(digest, file)
        if first != file:
            file.unlink()
            os.link(first, file)

    def emit(self, name, model, flags):
        """The emitted folder, its target renamed so that one project can hold them all; None where it is refused."""
        folder = self.folder / "programs" / name
        status, err = compiled(model, *flags, "--target", "cuda", "--arch", "sm_90", "--emit", "source", "-o", folder)
        if status == 3:
            self.refused.append({"name": name, "reason": harness.one_line(err)})
            shutil.rmtree(folder, ignore_errors=True)
            return None
        runtime = self.folder / "runtime_lib"
        if runtime.exists():
            shutil.rmtree(folder / "runtime_lib")
        else:
            shutil.move(folder / "runtime_lib", runtime)
        project = folder / "CMakeLists.txt"
        text, count = re.subn(r"weft_program\(\S+ cuda", f"weft_program({name} cuda", project.read_text())
        if count != 1:
            raise PackError(f"{project} does not call weft_program once")
        project.write_text(text)
        self.share_weights(folder / "weights.bin")
        return folder

    def add(self, name, model, flags, reference=None, **more):
        """One program; without a reference it is measured only."""
        if not self.wants(name):
            return
        folder = self.emit(name, model, flags)
        if folder is None:
            return
        ranks = json.loads((folder / "manifest.json").read_text())["world"]
        row = {"name": name, "ranks": ranks, **(reference() if reference else {}), **more}
        if row.pop("is_delayed", False):
            delay_flags(folder)
        self.programs.append(row)

    def finish(self):
        for name in ("nccl.h", "nccl_device.h", "nccl_device"):
            copy_nccl(name, self.folder / "nccl")
        shutil.copytree(HERE / "carried", self.folder, dirs_exist_ok=True, ignore=shutil.ignore_patterns("__pycache__"))
        (self.folder / "cases.json").write_text(json.dumps({"programs": self.programs, "refused": self.refused}, indent=1))


def copy_nccl(name, target):
    """NCCL's headers travel along: they come in packages that the other machine may lack."""
    toolkit = pathlib.Path(os.environ.get("CUDA_HOME", "/usr/local/cuda")) / "include"
    packages = sorted((harness.ROOT / "build" / "cuda").glob("lib/python3*/site-packages/nvidia/nccl/include"))
    source = next((place / name for place in [*packages, toolkit, pathlib.Path("/usr/include")] if (place / name).exists()), None)
    if source is None:
        return
    target.mkdir(exist_ok=True)
    if source.is_dir():
        shutil.copytree(source, target / name)
    else:
        shutil.copy(source, target / name)


def delay_flags(folder):
    """Puts random delays around flags and at the start of kernels (delays.h)."""
    flags = 0
    shutil.copy(HERE / "delays.h", folder / "kernels")
    for file in sorted(folder.glob("kernels/*.cu")):
        text = file.read_text().replace('#include "weft/device.h"', '#include "weft/device.h"\n#include "delays.h"', 1)
        text, count = re.subn(r"\bpeers\.(barrier|wait|signal)\(", r"weft_test::delayed(peers).\1(", text)
        text = re.sub(r"(__global__ void [^{;]*\{\n)", r"\1  weft_test::delay_kernel();\n", text)
        file.write_text(text)
        flags += count
    if flags == 0:
        raise PackError(f"{folder} has no flags to delay")


def once(make):
    """The reference that several programs share is made when the first asks."""
    kept = []

    def get():
        if not kept:
            kept.append(make())
        return kept[0]

    return get


def add_mlp(pack):
    model = MLP / "mlp.onnxtxt"
    reference = once(lambda: pack.reference("mlp", model, []))
    pack.add("mlp", model, [], reference, memcheck=True, latency=True)
    for schedule in ("tp2", "tp2_overlap"):
        pack.add(f"mlp_{schedule}", model, ["--schedule", MLP / f"{schedule}.yaml"], reference, memcheck=True, latency=True)


def add_gpt2(pack):
    names = ["gpt2", *(f"gpt2_{schedule}" for schedule in ("tp2", "tp4", "tp2_overlap", "pipeline2"))]
    if not any(map(pack.wants, names)):
        return
    model = pack.scratch / "gpt2.onnx"
    status, _, err = harness.run([sys.executable, GPT2 / "make.py", model, *GPT2_SIZES])
    if status != 0:
        raise PackError(err[-600:])
    reference = once(lambda: pack.reference("gpt2", model, GPT2_DIMS, high=GPT2_VOCABULARY))
    for name in names:
        schedule = [] if name == "gpt2" else ["--schedule", GPT2 / f"{name.removeprefix('gpt2_')}.yaml"]
        pack.add(name, model, [*GPT2_DIMS, *schedule], reference, memcheck=name in ("gpt2", "gpt2_tp2"), latency=True)


def add_trainings(pack):
    """GPT-2 under each schedule of its samples."""
    names = {f"train_{schedule.stem}": schedule for schedule in sorted(TRAINING.glob("gpt2*.yaml"))}
    if not any(map(pack.wants, names)):
        return
    model, tokens = harness.make_gpt2(pack.scratch / "trained.onnx", *TRAINED_SIZES), pack.scratch / "tokens.npy"
    status, _, err = harness.run([sys.executable, TRAINING / "bytes.py", tokens, harness.ROOT / "README.md"])
    if status != 0:
        raise PackError(err[-600:])
    reference = once(lambda: pack.losses("train", model, ["--schedule", TRAINING / "gpt2.yaml"], {"input_ids": tokens}))
    for name, schedule in names.items():
        pack.add(name, model, ["--schedule", schedule], reference)


def add_placements(pack):
    """Pipelines of trainings, beside the same on the host."""
    if not any(map(pack.wants, PLACEMENTS)):
        return
    model, tokens = pack.scratch / "placed.onnx", pack.scratch / "placed_tokens.npy"
    status, _, err = harness.run([sys.executable, PIPELINES / "make.py", "gpt", model])
    if status != 0:
        raise PackError(err[-600:])
    np.save(tokens, np.random.default_rng(20).integers(0, **PLACED_TOKENS))
    for name, change in PLACEMENTS.items():
        schedule = pack.scratch / f"{name}.yaml"
        schedule.write_text((PIPELINES / "v.yaml").read_text().replace(*change))
        flags = ["--schedule", schedule]
        pack.add(name, model, flags, lambda name=name, flags=flags: pack.losses(name, model, flags, {"tokens": tokens}))


def add_fixtures(pack):
    for model in sorted(FIXTURES.glob("*.onnxtxt")):
        if model.stem.startswith("fail_") or model.stem in LARGE:
            continue
        name, flags = f"fixture_{model.stem}", ["--schedule", model.with_suffix(".yaml")]
        pack.add(name, model, flags, lambda name=name, model=model, flags=flags: pack.reference(name, model, flags), memcheck=True)


def add_rounds(pack, rounds):
    for ranks in (2, 4):
        model, flags = MODELS / "rounds.onnxtxt", ["--schedule", MODELS / f"rounds_tp{ranks}.yaml"]
        name = f"rounds_tp{ranks}"
        pack.add(name, model, flags, once(lambda name=name, flags=flags: pack.reference(name, model, flags, rounds)), is_delayed=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--only", default="*", help="a shell pattern of names (default: all)")
    parser.add_argument("--rounds", type=int, default=1000, help="of the fused MLP under delays (default 1000)")
    options = parser.parse_args()
    folder = options.folder.resolve()
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    pack = Pack(folder, options.only)
    add_mlp(pack)
    add_gpt2(pack)
    add_trainings(pack)
    add_placements(pack)
    add_fixtures(pack)
    add_rounds(pack, options.rounds)
    for name, work in SPEED.items():
        pack.add(f"speed_{name}", MODELS / f"{name}.onnxtxt", [], latency=True, random_inputs=True, **work)
    pack.finish()
    print(f"{len(pack.programs)} programs packed, {len(pack.refused)} refused")


if __name__ == "__main__":
    try:
        main()
    except PackError as error:
        sys.exit(f"pack: {error}")
