# test: fast
"""Requests whose lengths are not as the nodes of a model demand: exit 1 with the node and both lengths, before anything is computed; of
a length that data decides, when it is there."""

import numpy as np

import harness

FOLDER = harness.scratch("relations")
MODEL = FOLDER / "related.onnxtxt"
TEXT = """<ir_version: 10, opset_import: ["" : 20]>
g (bool use, bool also, bool more, float[a,4] x, float[b,4] y, float[3,c] p, float[2,d] q, int64[e,2] i, float[past,4] old, float[total,1] mask, float[8] f, float[g] h, float[r,3] z, float[1,1,v,2] image, float[1,s,1] signal)
  => (float[a,4] scaled, float[5,c] joined, float[3,2] product, float[e,2] picked, float[rows,4] masked, float[found] counted,
      float[k,4] most, int64[k,4] at, float[4] third, float[past,2] placed, float[g] dropped, float[a,4] chosen, float[a,4] nested, float[edges,4] edge, int64[2,2] head, int64[rest,2] tail, float[fours,12] four, float[1,1,3,2] big, float[1,frames,2,2] spectrum)
  <float[6,2] w = random(1, 0.5), int64[1] zero = {0}, int64[1] k = {2}, int64 two = {2}, float[3,2] table = random(2, 0.5), int64 first = {0},
   int64 one = {1}, int64[4] crop = {-1, 0, 2, 0}, int64[1] two_rows = {2}, int64[2] dozens = {-1, 12}, int64[4] size = {1, 1, 3, 2}, int64 three = {3}> {
  [scale] scaled = Mul(x, y)
  [join] joined = Concat<axis = 0>(p, q)
  [down] product = MatMul(p, w)
  [pick] picked = GatherElements<axis = 1>(x, i)
  all = Concat<axis = 0>(old, x)
  [mask_rows] masked = Mul(all, mask)
  places = NonZero(f)
  row = Squeeze(places, zero)
  real = Cast<to = 1>(row)
  [count] counted = Mul(real, h)
  [choose] most, at = TopK<axis = 0>(x, k)
  [take] third = Gather(y, two)
  counted_old = Shape<start = 0, end = 1>(old)
  length = Squeeze(counted_old, zero)
  positions = Range(first, length, one)
  [embed] placed = Gather(table, positions)
  [drop] dropped = Squeeze(h)
  [crop] edge = Pad<mode = "edge">(old, crop)
  rows = Shape<start = 0, end = 1>(i)
  others = Sub(rows, two_rows)
  parts = Concat<axis = 0>(two_rows, others)
  [fours] four = Reshape(z, dozens)
  [part] head, tail = Split<axis = 0>(i, parts)
  [grow] big = Resize<mode = "linear">(image, , , size)
  [frame] spectrum = STFT(signal, one, , three)
  chosen = If(use) <then_branch = both () => (float[a,4] sum) { [both] sum = Add(x, old) },
                    else_branch = one () => (float[a,4] same) { same = Neg(x) }>
  nested = If(also) <then_branch = outer () => (float[a,4] result) {
      is_less = Not(more)
      result = If(is_less) <then_branch = inner () => (float[a,4] sum2) { [inner] sum2 = Sub(x, old) },
                              else_branch = none () => (float[a,4] same2) { same2 = Abs(x) }>
    }, else_branch = other () => (float[a,4] same3) { same3 = Exp(x) }>
}
"""
BOUNDS = {"a": 4, "b": 6, "c": 6, "d": 6, "e": 4, "past": 4, "total": 8, "g": 8, "r": 8, "v": 4, "s": 6}
FITTING = {"a": 3, "b": 3, "c": 6, "d": 6, "e": 3, "past": 2, "total": 5, "g": 5, "r": 4, "v": 2, "s": 3}
WRONG = [
    ({"b": 4}, "node 'scale' (Mul): a is 3, but must be b, which is 4"),
    ({"d": 5}, "node 'join' (Concat): c is 6, but must be d, which is 5"),
    ({"c": 5, "d": 5}, "node 'down' (MatMul): c is 5, but must be 6"),
    ({"e": 4}, "node 'pick' (GatherElements): e is 4, but must be at most a, which is 3"),
    ({"total": 6}, "node 'mask_rows' (Mul): a + past is 5, but must be total, which is 6"),
    ({"a": 1, "b": 1, "e": 1, "total": 3}, "node 'choose' (TopK): a is 1, but must be at least 2"),
    ({"a": 2, "b": 2, "e": 2, "total": 4}, "node 'take' (Gather): b is 2, but must be at least 3"),
    ({"past": 4, "total": 7}, "node 'embed' (Gather): past is 4, but must be at most 3"),
    ({"g": 1}, "node 'drop' (Squeeze): min(1, g) * 2 is 2, but must be at most g, which is 1"),
    ({"past": 1, "total": 4}, "node 'crop' (Pad): past is 1, but must be at least 2"),
    ({"e": 1}, "node 'part' (Split): e is 1, but must be at least 2"),
    ({"r": 6}, "node 'fours' (Reshape): r % 4 is 2, but must be 0"),
    ({"v": 0}, "node 'grow' (Resize): v is 0, but must be at least 1"),
    ({"s": 2}, "node 'frame' (STFT): s is 2, but must be at least 3"),
    ({"g": 4}, "node 'count' (Mul): places is 5, but must be g, which is 4"),
]


def arrays(lengths, use=False, also=False, more=False):
    a, b, c, d, e, past, total, g, r, v, s = (lengths[name] for name in BOUNDS)
    shapes = {"x": (a, 4), "y": (b, 4), "p": (3, c), "q": (2, d), "old": (past, 4), "mask": (total, 1), "h": (g,),
              "z": (r, 3), "image": (1, 1, v, 2), "signal": (1, s, 1)}
    made = {name: np.arange(np.prod(shape), dtype=np.float32).reshape(shape) for name, shape in shapes.items()}
    return made | {"use": np.bool_(use), "also": np.bool_(also), "more": np.bool_(more), "i": np.full((e, 2), 3), "f": np.float32([1, 0, 1, 1, 0, 1, 1, 0])}


def run(program, lengths, *conditions):
    given = []
    for name, array in arrays(lengths, *conditions).items():
        np.save(FOLDER / f"{name}.npy", array)
        given += ["--input", f"{name}={FOLDER / name}.npy"]
    status, _, err = harness.run([program, *given, "--output-dir", FOLDER])
    return status, err


def check_fitting(program):
    status, err = run(program, FITTING)
    if not harness.check("lengths that fit", status == 0, f"exit {status}: {err[-300:]}"):
        return
    given = arrays(FITTING)
    masked = np.load(FOLDER / "masked.npy")
    harness.check("lengths that fit/masked", np.array_equal(masked, np.concatenate([given["old"], given["x"]]) * given["mask"]), masked)
    counted = np.load(FOLDER / "counted.npy")
    harness.check("lengths that fit/counted", np.array_equal(counted, np.float32([0, 2, 3, 5, 6]) * given["h"]), counted)
    edge, tail, four = (np.load(FOLDER / f"{name}.npy") for name in ("edge", "tail", "four"))
    harness.check("lengths that fit/edge", np.array_equal(edge, np.repeat(given["old"][-1:], 3, axis=0)), edge)
    harness.check("lengths that fit/tail", np.array_equal(tail, given["i"][2:]), tail)
    harness.check("lengths that fit/four", np.array_equal(four, given["z"].reshape(-1, 12)), four)


def check_branch(program):
    """A branch's requirements apply only when it is taken."""
    told = "node 'both' (Add): a is 3, but must be past, which is 2"
    status, err = run(program, FITTING, True)
    harness.check("a branch/other lengths", status == 1 and told in err, f"exit {status}: {err[-300:]}")
    fitting = FITTING | {"past": 3, "total": 6}
    status, err = run(program, fitting, True)
    if harness.check("a branch/equal lengths", status == 0, f"exit {status}: {err[-300:]}"):
        given = arrays(fitting)
        chosen = np.load(FOLDER / "chosen.npy")
        harness.check("a branch/result", np.array_equal(chosen, given["x"] + given["old"]), chosen)


def check_nested(program):
    """The requirements of a branch inside of a branch apply only when both are taken."""
    told = "node 'inner' (Sub): a is 3, but must be past, which is 2"
    status, err = run(program, FITTING, False, True)
    harness.check("a branch in a branch/other lengths", status == 1 and told in err, f"exit {status}: {err[-300:]}")
    status, err = run(program, FITTING, False, True, True)
    if harness.check("a branch in a branch/not taken", status == 0, f"exit {status}: {err[-300:]}"):
        nested = np.load(FOLDER / "nested.npy")
        harness.check("a branch in a branch/result", np.array_equal(nested, np.abs(arrays(FITTING)["x"])), nested)


def main():
    MODEL.write_text(TEXT)
    program = FOLDER / "program"
    dims = [word for name, bound in BOUNDS.items() for word in ("--dim", f"{name}<={bound}")]
    status, out, err = harness.weft("compile", MODEL, "-o", program, *dims)
    if not harness.check("compile", status == 0, f"exit {status}: {(err or out)[-400:]}"):
        return
    check_fitting(program)
    for change, told in WRONG:
        status, err = run(program, FITTING | change)
        harness.check(told, status == 1 and told in err, f"exit {status}: {err[-300:]}")
    check_branch(program)
    check_nested(program)


harness.need_weft()
main()
