# test: slow
"""Every sample under every schedule: compiled, run on its ranks, compared with ONNX Runtime."""

import dataclasses
import sys

import harness

sys.path.insert(0, str(harness.ROOT / "test" / "models"))
from reference import write_reference  # noqa: E402

SAMPLES = harness.ROOT / "samples"
MODELS = harness.ROOT / "test" / "models"
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


def paths(folder, names):
    return [folder / f"{name}.yaml" for name in names]


SAMPLE_TABLE = [
    Sample("mlp", file=SAMPLES / "mlp" / "mlp.onnxtxt",
           schedules=paths(SAMPLES / "mlp", ["tp2", "tp2_overlap", "dp2"])),
    Sample("gpt2", script=SAMPLES / "gpt2" / "make.py", flags=SMALL_GPT2, dims={"batch": 2, "seq": 16},
           below={"input_ids": 503}, schedules=paths(SAMPLES / "gpt2", ["tp2", "tp4", "tp2_overlap", "pipeline2"])),
    Sample("gpt2_static", script=SAMPLES / "gpt2" / "make.py", flags=[*SMALL_GPT2, "--static", "1x32", "--external"],
           below={"input_ids": 503}, schedules=paths(SAMPLES / "gpt2", ["tp4"])),
    Sample("llama", script=MODELS / "llama.py", dims={"batch": 2, "seq": 12}, below={"input_ids": 211},
           schedules=paths(MODELS, ["llama_tp2"])),
]


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


def check_sample(sample):
    folder = harness.scratch(f"end_to_end_{sample.name}")
    model = make_model(sample, folder)
    write_reference(model, folder / "data", sample.dims, sample.below)
    dims = [f"--dim={name}={length}" for name, length in sample.dims.items()]
    verify(f"{sample.name}/one-rank", model, folder / "data", dims)
    for schedule in sample.schedules:
        verify(f"{sample.name}/{schedule.stem}", model, folder / "data", [*dims, "--schedule", schedule])


if __name__ == "__main__":
    harness.need_weft()
    for each in SAMPLE_TABLE:
        check_sample(each)
