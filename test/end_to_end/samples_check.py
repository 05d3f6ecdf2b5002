# test: slow, long
"""Every sample under every schedule is compiled, run on its ranks, and compared with ONNX Runtime. The language models
are also compared with the reference evaluation, and their collectives are counted: two all-reduces per layer, and
nothing else. In `full` GPT-2 small too: 12 layers, 768 wide, a vocabulary of 50257, on 1, 2 and 4 ranks."""

import collections
import dataclasses
import json
import re
import sys

import harness

sys.path.insert(0, str(harness.ROOT / "test" / "models"))
from reference import write_reference  # noqa: E402

SAMPLES = harness.ROOT / "samples"
SMALL_GPT2 = ["--layers", "4", "--width", "64", "--heads", "4", "--vocab", "503", "--context", "64"]


@dataclasses.dataclass
class Sample:
    name: str
    script: str = ""  # makes the model; without one the file itself lies in samples/
    file: str = ""
    flags: list = dataclasses.field(default_factory=list)
    dims: dict = dataclasses.field(default_factory=dict)
    below: dict = dataclasses.field(default_factory=dict)
    schedules: list = dataclasses.field(default_factory=list)
    tensor_parallel: list = dataclasses.field(default_factory=list)  # those of them whose collectives are counted
    layers: int = 0


def paths(folder, names):
    return [folder / f"{name}.yaml" for name in names]


SAMPLE_TABLE = [
    Sample("mlp", file=SAMPLES / "mlp" / "mlp.onnxtxt",
           schedules=paths(SAMPLES / "mlp", ["tp2", "tp2_overlap", "dp2"])),
    Sample("gpt2", script=SAMPLES / "gpt2" / "make.py", flags=SMALL_GPT2, dims={"batch": 2, "seq": 16}, layers=4,
           below={"input_ids": 503}, schedules=paths(SAMPLES / "gpt2", ["tp2", "tp4", "tp2_overlap", "pipeline2"]),
           tensor_parallel=["tp2", "tp4"]),
    Sample("gpt2_static", script=SAMPLES / "gpt2" / "make.py", flags=[*SMALL_GPT2, "--static", "1x32", "--external"],
           below={"input_ids": 503}, schedules=paths(SAMPLES / "gpt2", ["tp4"]), tensor_parallel=["tp4"], layers=4),
    Sample("llama", script=SAMPLES / "llama" / "make.py", flags=["--vocab", "211"], dims={"batch": 2, "seq": 12}, below={"input_ids": 211}, layers=2,
           schedules=paths(SAMPLES / "llama", ["tp2", "tp4"]), tensor_parallel=["tp2"]),
    # Another batch and length of the same file, and more layers: what a schedule names is open in all three.
    Sample("llama_long", script=SAMPLES / "llama" / "make.py", flags=["--layers", "5", "--vocab", "211"], dims={"batch": 1, "seq": 31}, layers=5,
           below={"input_ids": 211}, schedules=paths(SAMPLES / "llama", ["tp2", "tp4"]), tensor_parallel=["tp2"]),
]
FULL_SIZE = Sample("gpt2_small", script=SAMPLES / "gpt2" / "make.py", dims={"batch": 1, "seq": 128}, layers=12,
                   below={"input_ids": 50257}, schedules=paths(SAMPLES / "gpt2", ["tp2", "tp4"]),
                   tensor_parallel=["tp2", "tp4"])


def make_model(sample, folder):
    if sample.file:
        return sample.file
    model = folder / f"{sample.name}.onnx"
    status, _, err = harness.run([sys.executable, sample.script, model, *sample.flags])
    if status != 0:
        raise RuntimeError(f"{sample.script.name} failed: {err[-300:]}")
    return model


def verify(name, model, data, flags):
    status, out, err = harness.weft("verify", model, "--data", data, *flags, cwd=data)
    if status == 3:
        harness.skipped(name, f"not supported: {(err or out)[-200:]}")
    else:
        harness.check(name, status == 0, f"exit {status}: {(err or out)[-400:]}")


def check_evaluated(sample, model, dims):
    """Against the reference evaluation of the same graph, all schedules in one run."""
    flags = [flag for schedule in sample.schedules for flag in ("--schedule", schedule)]
    status, out, err = harness.weft("verify", model, *dims, *flags)
    harness.check(f"{sample.name}/evaluated", status == 0, f"exit {status}: {(out + err)[-400:]}")


def check_collectives(sample, model, dims, schedule):
    """Two all-reduces over tp in every layer, and no other collective in any of them."""
    name = f"{sample.name}/{schedule.stem}/collectives"
    status, out, err = harness.weft("explain", model, *dims, "--schedule", schedule, "--json")
    if status != 0:
        harness.failed(name, f"exit {status}: {err[-300:]}")
        return
    found = [(re.match(r"h\.(\d+)\.|/model/layers\.(\d+)/", c["name"]), c["what"]) for c in json.loads(out)["collectives"]]
    layers = collections.Counter((int(match[1] or match[2]), what) for match, what in found if match)
    wanted = {(layer, "AllReduce sum over tp"): 2 for layer in range(sample.layers)}
    figure = f"{sum(layers.values())} in {sample.layers} layers, {len(found) - sum(layers.values())} outside"
    harness.measured(name, layers == wanted, figure if layers == wanted else f"{figure}: {dict(layers)}")


def check_sample(sample):
    folder = harness.scratch(f"end_to_end_{sample.name}")
    model = make_model(sample, folder)
    write_reference(model, folder / "data", sample.dims, sample.below)
    dims = [f"--dim={name}={length}" for name, length in sample.dims.items()]
    verify(f"{sample.name}/one-rank", model, folder / "data", dims)
    for schedule in sample.schedules:
        verify(f"{sample.name}/{schedule.stem}", model, folder / "data", [*dims, "--schedule", schedule])
        if schedule.stem in sample.tensor_parallel:
            check_collectives(sample, model, dims, schedule)
    if sample.tensor_parallel and sample is not FULL_SIZE:
        check_evaluated(sample, model, dims)


if __name__ == "__main__":
    harness.need_weft()
    for each in SAMPLE_TABLE:
        check_sample(each)
    if harness.FULL:
        check_sample(FULL_SIZE)
        harness.scratch(f"end_to_end_{FULL_SIZE.name}")  # half a gigabyte of weights
