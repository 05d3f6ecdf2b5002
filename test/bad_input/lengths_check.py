# test: fast
"""A request that is shorter than a model needs: exit 1 with who needs it and both numbers. TopK takes a number of
elements; an image smaller than the window that moves over it has no place for one."""

import numpy as np

import harness

FOLDER = harness.scratch("lengths")
MODEL = FOLDER / "short.onnxtxt"
# The number of windows as exporters write it: (side - 3) / 2 + 1.
TEXT = """<ir_version: 10, opset_import: ["" : 20]>
g (float[n] x, float[1,1,side] image) => (float[3] y, int64[3] at, float[1,windows] seen)
<int64[1] k = {3}, float[1,1,3] filter = {1, 1, 1}, int64[1] one = {1}, int64[1] two = {2}, int64[1] three = {3}>
{
  [choose] y, at = TopK(x, k)
  [conv] c = Conv<strides = [2]>(image, filter)
  [side] side = Shape<start = 2, end = 3>(image)
  [room] room = Sub(side, three)
  [moves] moves = Div(room, two)
  [windows] windows = Add(moves, one)
  [shape] shape = Concat<axis = 0>(one, windows)
  [seen] seen = Reshape(c, shape)
}
"""


def run(program, count, side):
    for name, array in (("x", np.arange(count)), ("image", np.ones((1, 1, side)))):
        np.save(FOLDER / f"{name}.npy", array.astype(np.float32))
    inputs = [f"--input={name}={FOLDER / name}.npy" for name in ("x", "image")]
    status, _, err = harness.run([program, *inputs, "--output-dir", FOLDER])
    return status, err


def check_long(program, count, side):
    status, err = run(program, count, side)
    found = [np.load(FOLDER / f"{name}.npy").tolist() for name in ("at", "seen")] if status == 0 else err[-300:]
    wanted = [[count - 1, count - 2, count - 3], [[3] * ((side - 3) // 2 + 1)]]
    harness.check(f"{count} elements, side {side}", found == wanted, f"exit {status}: {found}")


def check_short(program, count, side, told):
    status, err = run(program, count, side)
    harness.check(f"{count} elements, side {side}", status == 1 and told in err, f"exit {status}: {err[-300:]}")


def main():
    MODEL.write_text(TEXT)
    program = FOLDER / "program"
    status, out, err = harness.weft("compile", MODEL, "-o", program, "--dim", "n<=8", "--dim", "side<=9")
    if not harness.check("compile", status == 0, f"exit {status}: {(err or out)[-400:]}"):
        return
    for count, side in ((3, 3), (4, 4), (8, 9)):
        check_long(program, count, side)
    check_short(program, 2, 9, "node 'choose' (TopK): n is 2, but must be at least 3")
    check_short(program, 8, 2, "'image': a dimension has 2 elements, but at least 3 are needed")


harness.need_weft()
main()
