# test: fast
"""A request with fewer elements than TopK takes: exit 1 with the node and both numbers."""

import numpy as np

import harness

FOLDER = harness.scratch("lengths")
MODEL = FOLDER / "choose.onnxtxt"
TEXT = """<ir_version: 10, opset_import: ["" : 20]>
g (float[n] x) => (float[3] y, int64[3] at) <int64[1] k = {3}> { [choose] y, at = TopK(x, k) }
"""


def run(program, count):
    np.save(FOLDER / "x.npy", np.arange(count, dtype=np.float32))
    status, _, err = harness.run([program, "--input", f"x={FOLDER / 'x.npy'}", "--output-dir", FOLDER])
    return status, err


def main():
    MODEL.write_text(TEXT)
    program = FOLDER / "program"
    status, out, err = harness.weft("compile", MODEL, "-o", program, "--dim", "n<=8")
    if not harness.check("compile", status == 0, f"exit {status}: {(err or out)[-400:]}"):
        return
    for count in (3, 4, 8):
        status, err = run(program, count)
        found = np.load(FOLDER / "at.npy").tolist() if status == 0 else err[-300:]
        harness.check(f"{count} elements", found == [count - 1, count - 2, count - 3], f"exit {status}: {found}")
    status, err = run(program, 2)
    told = "node 'choose' (TopK): a dimension has 2 elements, but at least 3 are needed" in err
    harness.check("2 elements", status == 1 and told, f"exit {status}: {err[-300:]}")


harness.need_weft()
main()
