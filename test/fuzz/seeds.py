"""Writes the seeds of fuzzing: the fixtures and samples as ONNX files that contain their schedule and dims
(model_case.h), the schedules and texts themselves, and small files of every other kind.

    python seeds.py FOLDER    one folder a target below FOLDER"""

import io
import pathlib
import re
import struct
import sys

import numpy as np
import onnx
import onnx.parser

import harness

ROOT = harness.ROOT
RANDOM = re.compile(r"\b(\w+) ?\[([\d, ]+)\] (\"[^\"]+\"|[\w.]+) = random\([^)]*\)")
MOST_BYTES = 1 << 14
HEADERS = ["{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }", "{'descr': '|V2', 'fortran_order': True, 'shape': (6,), }"]
FLAGS = ["--input\nx=x.npy\n--output-dir\nout", "--random-inputs\n5\n--iterations\n3\n--warmup\n1", "--link\n10Gbit/s,50us",
         "--serve\nunix:/tmp/s\n--sessions\n4", "--threads\n2\n--timeout\n5\n--stall\n0:x", "--root\n[::1]:29500\n--load-state\ns"]
ENVIRONMENTS = ["RANK=1\nWORLD_SIZE=2\nLOCAL_WORLD_SIZE=2\nMASTER_ADDR=::1\nMASTER_PORT=29500",
                "SLURM_PROCID=1\nSLURM_NTASKS=4\nSLURM_NNODES=2\nSLURM_JOB_ID=7\nSLURM_STEP_ID=0\nSLURM_STEP_NODELIST=a[07-09,12],b1",
                "OMPI_COMM_WORLD_RANK=0\nOMPI_COMM_WORLD_SIZE=2\nOMPI_COMM_WORLD_LOCAL_SIZE=1\nPMIX_NAMESPACE=x",
                "PMI_RANK=0\nPMI_SIZE=2\nMPI_LOCALNRANKS=2\nPMI_PORT=host:1", "WEFT_RANK=1\nWEFT_SEGMENT=3"]
DIMS = ["seq=1,128", "seq<=1024", "x=1x3x224x224", "x=scalar", "ids=ids.npy", "tp=4", "--dim\nseq<=9\n--tolerance\n0.1"]


def with_numbers(text):
    """onnx.parser does not know random(seed, scale): small numbers stand for it."""
    def numbers(match):
        count = int(np.prod([int(d) for d in match[2].split(",")]))
        return f"{match[1]}[{match[2]}] {match[3]} = {{{', '.join(str((k * 37 % 19 - 9) / 16) for k in range(count))}}}"

    return RANDOM.sub(numbers, text)


def open_dims(model, schedule):
    named = {dim.dim_param for value in model.graph.input for dim in value.type.tensor_type.shape.dim if dim.dim_param}
    return " ".join(f"{name}<=4" for name in sorted(named) if not re.search(rf"\b{re.escape(name)}:", schedule))


def model_case(text, schedule):
    """The case of a model in ONNX's text syntax; nothing where it uses what only our own reader knows, or is large."""
    try:
        model = onnx.parser.parse_model(with_numbers(text))
    except (onnx.parser.ParseError, ValueError):
        return None
    onnx.helper.set_model_props(model, {"weft.schedule": schedule, "weft.dims": open_dims(model, schedule)})
    case = model.SerializeToString()
    return case if len(case) <= MOST_BYTES else None


def case_bytes(path):
    """A kept case as its target reads it: models may be written in ONNX's text syntax, with what they carry as metadata."""
    if path.suffix != ".onnxtxt" or path.parent.name not in ("model", "model_bytes"):
        return path.read_bytes()
    return onnx.parser.parse_model(path.read_text()).SerializeToString()


def npy(header, elements=24):
    padded = header.ljust(117) + "\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(padded)) + padded.encode() + bytes(elements)


def saved(array):
    file = io.BytesIO()
    np.save(file, array)
    return file.getvalue()


def message(verb, name, array):
    body = struct.pack("<I", 1) + b"s" + struct.pack("<IQ", len(name), len(array)) + name + array
    return b"WEFT" + struct.pack("<IQ", verb, len(body)) + body


def weights():
    """A file of one slice, as weft/image.h describes it; its checksum is for the target to mend."""
    manifest = b'{"steps": [{"name": "x", "schedule": "s.yaml:1:1"}]}'
    body = bytes(4096) + manifest + struct.pack("<QQII", 0, 4096, 0, 0)
    return body + struct.pack("<8sQQQQQQII", b"WEFTIMG3", 0, 4096, 4096, len(manifest), 4096 + len(manifest), 1, 0, 0)


def all_seeds():
    """(target, name, bytes) of every seed."""
    for path in [*sorted((ROOT / "test" / "fixtures").glob("*.onnxtxt")), *sorted((ROOT / "samples").glob("*/*.onnxtxt"))]:
        text = path.read_text()
        schedules = [file.read_text() for file in sorted(path.parent.glob(path.stem + "*.yaml"))]
        if len(text) <= MOST_BYTES:
            yield "text", path.stem, text.encode()
        for number, schedule in enumerate(schedules or [""]):
            yield "schedule", f"{path.stem}{number}", schedule.encode()
            case = model_case(text, schedule)
            if case:
                yield "model", f"{path.stem}{number}", case
                yield "model_bytes", f"{path.stem}{number}", case
    arrays = [saved(np.arange(6).reshape(2, 3).astype(t)) for t in ("f4", "i8", "?", "f8", "f2")] + [npy(h) for h in HEADERS]
    for k, array in enumerate(arrays):
        yield "npy", str(k), bytes([k]) + array
        yield "tensor_file", str(k), b"\0" + array
        yield "request", str(k), message(1 + k % 3, b"x", array)
        yield "channel", str(k), bytes([k]) + message(1, b"x", array) + message(2, b"", b"")
    yield "tensor_file", "tensor", b"\1" + onnx.numpy_helper.from_array(np.ones((2, 2), "f4"), "x").SerializeToString()
    yield "weights", "one", weights()
    for target, texts in (("options", FLAGS), ("environment", ENVIRONMENTS), ("flags", DIMS)):
        for k, text in enumerate(texts):
            yield target, str(k), text.encode()


def write_corpus_seeds(folder):
    """The models of ONNX's node cases, where the corpus of test data lies on this machine."""
    pack = harness.corpus_pack("onnx_node_tests_v1.23dev_6be0677f")
    for path in sorted(pack.rglob("*.onnx")) if pack else []:
        if path.stat().st_size > MOST_BYTES:
            continue
        model = onnx.load(path)
        onnx.helper.set_model_props(model, {"weft.schedule": "", "weft.dims": open_dims(model, "")})
        for target in ("model", "model_bytes"):
            (folder / target / f"node_{path.parent.name}").write_bytes(model.SerializeToString())


def write_seeds(folder):
    """All seeds, one folder a target, with the kept cases of models and those that no fixture is like."""
    fuzz = ROOT / "test" / "fuzz"
    files = sorted([*(fuzz / "corpus" / "model").iterdir(), *(fuzz / "seeds" / "model").iterdir()])
    kept = [("model", path.stem, case_bytes(path)) for path in files]
    for target, name, content in [*all_seeds(), *kept]:
        (folder / target).mkdir(parents=True, exist_ok=True)
        (folder / target / name).write_bytes(content)


if __name__ == "__main__":
    write_seeds(pathlib.Path(sys.argv[1]))
