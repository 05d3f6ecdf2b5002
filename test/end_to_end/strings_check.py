# test: slow
"""Strings in programs, through .npy files and a server, on one rank and with rows sliced over two: what Python gives. A
string that would become too long is refused, and a server goes on."""

import os
import re
import subprocess
import sys
import time

import numpy as np

import harness

sys.path.insert(0, str(harness.ROOT / "samples" / "serve"))
from client import RUN, STOP, Client  # noqa: E402

MODEL = r"""<ir_version: 10, opset_import: ["" : 20, "ai.onnx.ml" : 3]>
strings (string[4] host, string[4] domain, string[4] number, string[few] words) =>
  (string[4] site, bool[4] is_site, int64[4] code, string[4,parts] pieces, int64[4] counts, string[words] kept,
   float[4] value, string[4] text, string[4] next,
   string[1] length, string[left] others) {
  site = StringConcat(host, domain)
  is_site = RegexFullMatch<pattern = "www\\.[a-z\xc3\xa9]+\\.(com|org)">(site)
  code = ai.onnx.ml.LabelEncoder<keys_strings = [".org", ".com"], values_int64s = [7, 8]>(domain)
  pieces, counts = StringSplit<delimiter = ".">(site)
  kept = StringNormalizer<case_change_action = "UPPER", stopwords = ["WWW.WEFT"]>(host)
  others = StringNormalizer<case_change_action = "LOWER", stopwords = ["Www"]>(words)
  value = Cast<to = 1>(number)
  text = Cast<to = 8>(value)
  order = Constant<value = int64[4] {3, 2, 1, 0}>()
  next = Gather(host, order)
  extents = Shape(host)
  length = Cast<to = 8>(extents)
}
"""
SCHEDULE = """weft: 1
mesh: {dp: 2}
shard:
  host: {dp: 0}
  domain: {dp: 0}
  number: {dp: 0}
"""
INPUTS = {
    "host": np.array(["www.weft", "www.été", "Www.Weft", "ftp.你好"]),
    "domain": np.array([".com", ".org", ".net", ".com"]),
    "number": np.array(["1.5", "-1e3", "INF", "nan"]),
    "words": np.array(["Été", "www", "A"]),
}


def expected(host, domain, number, words):
    site = np.char.add(host, domain)
    split = [each.split(".") for each in site]
    width = max(map(len, split))
    kept = [each.upper() for each in host if each.lower() != "www.weft"]
    return {
        "site": site,
        "is_site": np.array([re.fullmatch(r"www\.[a-zé]+\.(com|org)", each) is not None for each in site]),
        "code": np.array([{".org": 7, ".com": 8}.get(each, -1) for each in domain]),
        "pieces": np.array([each + [""] * (width - len(each)) for each in split]),
        "counts": np.array(list(map(len, split))),
        "kept": np.array(kept or [""]),
        "value": number.astype(np.float32),
        "text": np.array([str(float(each)) for each in number]),
        "next": host[::-1],
        "length": np.array([str(len(host))]),
        "others": np.array([each.lower() for each in words if each.lower() != "www"] or [""]),
    }


def check_results(name, found, wanted):
    for output, array in wanted.items():
        same = output in found and found[output].shape == array.shape and np.array_equal(
            found[output], array, equal_nan=array.dtype.kind == "f")
        harness.check(f"{name}/{output}", same, f"{found.get(output)}, not {array}")


def run_on(program, folder, inputs):
    flags = []
    for input_name, array in inputs.items():
        np.save(folder / f"{input_name}.npy", array)
        flags += ["--input", f"{input_name}={folder / input_name}.npy"]
    return harness.run([program, *flags, "--output-dir", folder / "out", "--poison", "--threads", "2"])


def check_files(name, program, folder):
    status, _, err = run_on(program, folder, INPUTS)
    if harness.check(f"{name}/runs", status == 0, f"exit {status}: {err[-300:]}"):
        check_results(name, {out: np.load(folder / "out" / f"{out}.npy") for out in expected(**INPUTS)}, expected(**INPUTS))
    stopped = INPUTS | {"host": np.array(["www.weft"] * 4), "words": np.array([], dtype="U1")}
    status, _, err = run_on(program, folder, stopped)
    for output in ("kept", "others"):
        left = np.load(folder / "out" / f"{output}.npy") if status == 0 else err[-300:]
        harness.check(f"{name}/no word is left/{output}", status == 0 and list(left) == [""], f"{left}")
    for what, input_name, text, wanted in (
            ("too long together", "host", "x" * 253, "would have 257 bytes"),
            ("too long", "host", "x" * 256, "has 256 bytes as UTF-8"),
            ("no number", "number", "one", "the string 'one' is no number")):
        wrong = INPUTS | {input_name: np.array([*INPUTS[input_name][:3], text])}
        status, _, err = run_on(program, folder, wrong)
        harness.check(f"{name}/{what}", status == 1 and wanted in err, f"exit {status}: {err[-300:]}")


def connected(path):
    end = time.monotonic() + 30
    while time.monotonic() < end:
        try:
            return Client(path)
        except OSError:
            time.sleep(0.01)
    raise TimeoutError(path)


def check_server(name, program):
    path = f"/tmp/weft_strings_{os.getpid()}"
    server = subprocess.Popen([program, "--serve", f"unix:{path}", "--threads", "1"], stdout=subprocess.DEVNULL)
    try:
        client = connected(path)
        too_long = INPUTS | {"host": np.array(["x" * 253] * 4)}
        try:
            client.request(RUN, **too_long)
            harness.failed(f"{name}/too long", "no error")
        except ValueError as error:
            harness.check(f"{name}/too long", "would have 257 bytes" in str(error), str(error))
        check_results(name, client.request(RUN, **INPUTS), expected(**INPUTS))
        client.request(STOP)
        harness.check(f"{name}/ends", server.wait(timeout=30) == 0, f"exit {server.returncode}")
    finally:
        server.kill()


def main():
    harness.need_weft()
    folder = harness.scratch("strings")
    (folder / "strings.onnxtxt").write_text(MODEL.replace("\xc3\xa9", "é"), encoding="utf-8")
    (folder / "two.yaml").write_text(SCHEDULE)
    for name, flags in (("one rank", []), ("two ranks", ["--schedule", folder / "two.yaml"])):
        program = folder / name.replace(" ", "_")
        status, _, err = harness.weft("compile", folder / "strings.onnxtxt", "--dim", "few<=4", *flags, "-o", program)
        if not harness.check(f"{name}/compiles", status == 0, f"exit {status}: {err[-500:]}"):
            continue
        check_files(name, program, folder)
        if not flags:
            check_server("server", program)
    status, _, err = harness.weft("compile", folder / "strings.onnxtxt", "--dim", "few<=4", "--target", "cuda", "--emit", "source", "-o", folder / "cuda")
    harness.check("cuda is refused", status == 3 and "host target only" in err, f"exit {status}: {err[-300:]}")


main()
