"""A HannWindow of 2^28 elements, 61 bytes of model, is no constant: compiling it takes little memory and writes little."""

import resource

import harness

MOST_BYTES = 256 << 20


def limit():
    resource.setrlimit(resource.RLIMIT_AS, (2 << 30, 2 << 30))


def run(case):
    sources = case.out / "sources"
    status, _, err = harness.run(
        harness.weft_command("compile", case.folder / "hann28.onnx", "--emit", "source", "-o", sources), preexec_fn=limit)
    written = sum(file.stat().st_size for file in sources.rglob("*") if file.is_file())
    harness.check(case.name, status == 0 and written < MOST_BYTES, f"exit {status}, {written} bytes: {err[-300:]}")
