# test: fast
"""Indices from data that lie outside of what is looked up or written to: exit 1 with node, value and extent, on one rank and where the
data are sliced."""

import numpy as np

import harness

TEXT = """<ir_version: 10, opset_import: ["" : 20]>
g (int64[2,3] ids, int32[1,4] columns) => (float[2,3,4] y, float[4,7] z) <float[7,4] w = random(1, 0.5), int64[1] s = {4}> {
  [look] y = Gather(w, ids)
  flat = Reshape(columns, s)
  wide = Cast<to = 7>(flat)
  t = Transpose<perm = [1, 0]>(w)
  [pick] z = Gather(t, wide)
}
"""
# A run-time number of indices into a table of run-time length.
OPEN = """<ir_version: 10, opset_import: ["" : 20]>
g (int64[batch,n] ids, float[rows,2] table) => (float[batch,n,2] y) { [look] y = Gather(table, ids) }
"""
# Indices that stand in memory and that the kernel computes, of dimensions of all kinds: a request's length, a sum of two, several at once.
PLACES = """<ir_version: 10, opset_import: ["" : 20]>
g (int64[s] i, int64[2] j, float[rows,4] table, float[old,4] before, float[7,6] m, int64[k,2] pairs, float[l] u, int64[r,1] own,
   float[4,n] lines, int64[4,q] columns, float[4,q] values)
  => (float[joined_rows,4] joined, float[s,4] appended, float[k] picked, float[7,6] put, float[4,q] found,
      float[4,n] spread, float[rows] of_own, float[2] ends)
  <int64[2,2] corners = {3, 0, -4, 1}> {
  both = Concat<axis = 0>(i, j)
  [join] joined = Gather(table, both)
  all = Concat<axis = 0>(before, table)
  [append] appended = Gather(all, i)
  [pick_pair] picked = GatherND(m, pairs)
  [put_pair] put = ScatterND(m, pairs, u)
  [find] found = GatherElements<axis = 1>(lines, columns)
  [spread_out] spread = ScatterElements<axis = 1>(lines, columns, values)
  [each_row] of_own = GatherND<batch_dims = 1>(table, own)
  [corner] ends = GatherND(table, corners)
}
"""
PLACES_BOUNDS = {"s": 6, "rows": 8, "old": 4, "k": 4, "l": 4, "r": 8, "n": 8, "q": 4}
FITTING = {"i": [0, 4, -5], "j": [1, 4], "pairs": [[6, 5], [-7, -6]], "columns": [[4, -5]] * 4, "own": [[0], [3], [-4], [-1], [1]]}
REFUSED = [
    ({"j": [1, 5]}, "node 'join' (Gather): index 5 lies outside of a dimension of 5 elements"),
    ({"j": [0, -6]}, "index -6 lies outside of a dimension of 5 elements"),
    ({"pairs": [[7, 0], [0, 0]]}, "index 7 lies outside of a dimension of 7 elements"),
    ({"pairs": [[0, 0], [0, -7]]}, "index -7 lies outside of a dimension of 6 elements"),
    ({"columns": [[4, 0]] * 3 + [[0, 5]]}, "index 5 lies outside of a dimension of 5 elements"),
    ({"columns": [[-6, 0]] + [[0, 0]] * 3}, "index -6 lies outside of a dimension of 5 elements"),
    ({"own": [[0]] * 4 + [[4]]}, "node 'each_row' (GatherND): index 4 lies outside of a dimension of 4 elements"),
    ({"own": [[0]] * 4}, "node 'each_row' (GatherND): r is 4, but must be rows, which is 5"),
    ({"u": 3}, "node 'put_pair' (ScatterND): l is 3, but must be k, which is 2"),
    ({"table": 3, "own": [[0]] * 3}, "node 'corner' (GatherND): rows is 3, but must be at least 4"),
]
SLICED = "weft: 1\nmesh: {tp: 2}\nshard: {m: {tp: 0}, put: {tp: 0}, lines: {tp: 0}}\n"
# Operators made of others, whose indices do not count from the end.
MADE = """<ir_version: 10, opset_import: ["" : 20, "com.microsoft" : 1, "ai.onnx.ml" : 3]>
g (float[2,1,4,4] images, float[1,4] boxes, int64[1] image, float[1,1,1,2] pooled, int64[1,1,1,2] places, float[1,1,2,4] heads,
   int64[1,2] positions, float[2,3] features, int64[2] columns, float[3,2] series, int64[2] lengths, float[3,1,2] words, int32[1] spoken)
  => (float[1,1,1,1] aligned, float[1,1,2,4] unpooled, float[1,1,2,4] turned, float[2,2] chosen, float[3,2] reversed, float[3,1,1,2] heard)
  <float[5,2] cosines = random(1, 0.5), float[5,2] sines = random(2, 0.5), float[1,6,2] w = random(3, 0.5), float[1,6,2] r = random(4, 0.5)> {
  [align] aligned = RoiAlign<mode = "avg">(images, boxes, image)
  [unpool] unpooled = MaxUnpool<kernel_shape = [2,2], strides = [2,2]>(pooled, places)
  [turn] turned = com.microsoft.RotaryEmbedding(heads, positions, cosines, sines)
  [choose] chosen = ai.onnx.ml.ArrayFeatureExtractor(features, columns)
  [reverse] reversed = ReverseSequence(series, lengths)
  [hear] heard = GRU<hidden_size = 2>(words, w, r, , spoken)
}
"""
MADE_FITTING = {"image": [1], "places": [[[[0, 7]]]], "positions": [[0, 4]], "columns": [0, 2], "lengths": [3, 0], "spoken": [3]}
MADE_REFUSED = [
    ({"image": [-1]}, "node 'align' (RoiAlign): index -1 lies outside of a dimension of 2 elements"),
    ({"places": [[[[-1, 0]]]]}, "node 'unpool' (MaxUnpool): index -1 lies outside of a dimension of 8 elements"),
    ({"positions": [[-1, 0]]}, "node 'turn' (RotaryEmbedding): index -1 lies outside of a dimension of 5 elements"),
    ({"columns": [-1, 0]}, "node 'choose' (ArrayFeatureExtractor): index -1 lies outside of a dimension of 3 elements"),
    ({"lengths": [4, 0]}, "node 'reverse' (ReverseSequence): index 4 lies outside of a dimension of 4 elements"),
    ({"spoken": [4]}, "node 'hear' (GRU): index 4 lies outside of a dimension of 4 elements"),
    ({"lengths": [-1, 0]}, "node 'reverse' (ReverseSequence): index -1 lies outside of a dimension of 4 elements"),
]
# A look-up in a loop over chunks that is one kernel.
CHUNKS = """<ir_version: 10, opset_import: ["" : 20]>
g (int64[16] ids) => (float[16,8] y) <float[50,4] w = random(1, 0.5), float[4,8] p = random(2, 0.5)> {
  [look] x = Gather(w, ids)
  [down] h = MatMul(x, p)
  [act] y = Relu(h)
}
"""
IN_CHUNKS = """weft: 1
mesh: {tp: 2}
shard: {p: {tp: 0}, w: {tp: 1}}
transform:
  - overlap: {ops: [look, down, down.sum, act], chunks: 4, dim: 0, mechanism: signal}
"""
SCHEDULE = "weft: 1\nmesh: {tp: 2}\nshard: {w: {tp: 0}}\n"


def run(program, ids, columns):
    np.save(FOLDER / "ids.npy", np.array([[0, 0, 0], [0, ids, 0]]))
    np.save(FOLDER / "columns.npy", np.array([[0, 1, 2, columns]], np.int32))
    status, _, err = harness.run([program, "--input", f"ids={FOLDER / 'ids.npy'}", "--input", f"columns={FOLDER / 'columns.npy'}"])
    return status, err


def check_program(program):
    for inside in (0, 6, -7):
        status, err = run(program, inside, 0)
        harness.check(f"{program.name}/index {inside}", status == 0, f"exit {status}: {err[-300:]}")
    status, err = run(program, 0, 4)
    told = "node 'pick' (Gather): index 4 lies outside of a dimension of 4 elements" in err
    harness.check(f"{program.name}/after a view and a cast", status == 1 and told, f"exit {status}: {err[-300:]}")
    for outside in (7, -8, 2**40):
        status, err = run(program, outside, 0)
        told = f"node 'look' (Gather): index {outside} lies outside of a dimension of 7 elements" in err
        harness.check(f"{program.name}/index {outside}", status == 1 and told, f"exit {status}: {err[-300:]}")


def check_open():
    model, program = FOLDER / "open.onnxtxt", FOLDER / "open"
    model.write_text(OPEN)
    status, out, err = harness.weft("compile", model, "-o", program, "--dim", "batch<=4", "--dim", "n<=3", "--dim", "rows<=6")
    if not harness.check("open/compile", status == 0, f"exit {status}: {(err or out)[-400:]}"):
        return
    np.save(FOLDER / "table.npy", np.zeros((4, 2), np.float32))
    for index, wanted in ((3, 0), (-4, 0), (4, 1), (-5, 1)):
        np.save(FOLDER / "ids.npy", np.array([[0, 0], [0, index]]))
        status, _, err = harness.run([program, "--input", f"ids={FOLDER / 'ids.npy'}", "--input", f"table={FOLDER / 'table.npy'}"])
        told = wanted == 0 or f"node 'look' (Gather): index {index} lies outside of a dimension of 4 elements" in err
        harness.check(f"open/index {index}", status == wanted and told, f"exit {status}: {err[-300:]}")


def places_request(changed):
    """The arrays of a request: `table` and `u` are given as their lengths."""
    given = {"table": 5, "u": 2, **FITTING, **changed}
    arrays = {name: np.array(given[name]) for name in FITTING}
    rng = np.random.default_rng(1)
    shapes = {"table": (given["table"], 4), "before": (3, 4), "m": (7, 6), "u": (given["u"],), "lines": (4, 5), "values": (4, 2)}
    return arrays | {name: rng.standard_normal(shape).astype(np.float32) for name, shape in shapes.items()}


def run_places(program, arrays, env=None):
    folder, given = program.parent, []
    for name, array in arrays.items():
        np.save(folder / f"{name}.npy", array)
        given += ["--input", f"{name}={folder / name}.npy"]
    status, _, err = harness.run([program, *given, "--output-dir", folder], env=env)
    return status, err


def check_results(folder, name, x):
    """The results of a valid request, computed again in NumPy."""
    table, columns, rows = x["table"], x["columns"], np.arange(4)[:, None]
    wanted = {"joined": table[np.concatenate([x["i"], x["j"]])],
              "appended": np.concatenate([x["before"], table])[x["i"]], "picked": x["m"][tuple(x["pairs"].T)],
              "put": x["m"].copy(), "found": x["lines"][rows, columns], "spread": x["lines"].copy(),
              "of_own": table[np.arange(5), x["own"][:, 0]], "ends": table[[3, -4], [0, 1]]}
    wanted["put"][tuple(x["pairs"].T)] = x["u"]
    wanted["spread"][rows, columns] = x["values"]
    for output, array in wanted.items():
        harness.check(f"{name}/{output}", np.array_equal(np.load(folder / f"{output}.npy"), array), "another value")


def check_places(name, compile_, schedule, env=None):
    """`compile_(*arguments)` compiles; `env`: what its programs run under."""
    folder = harness.scratch(f"indices_{name}")
    model, program = folder / "places.onnxtxt", folder / name
    model.write_text(PLACES)
    (folder / f"{name}.yaml").write_text(schedule)
    dims = [flag for dim, bound in PLACES_BOUNDS.items() for flag in ("--dim", f"{dim}<={bound}")]
    status, out, err = compile_("compile", model, "-o", program, "--schedule", folder / f"{name}.yaml", *dims, "--quiet")
    if not harness.check(f"{name}/compile", status == 0, f"exit {status}: {(err or out)[-400:]}"):
        return
    x = places_request({"columns": [[4, -4]] * 4})
    status, err = run_places(program, x, env)
    if harness.check(f"{name}/inside", status == 0, f"exit {status}: {err[-300:]}"):
        check_results(folder, name, x)
    for changed, message in REFUSED:
        status, err = run_places(program, places_request(changed), env)
        harness.check(f"{name}/{changed}", status == 1 and message in err, f"exit {status}: {err[-300:]}")


def check_made(name, compile_, env=None):
    folder = harness.scratch(f"indices_{name}")
    model, program = folder / "made.onnxtxt", folder / name
    model.write_text(MADE)
    status, out, err = compile_("compile", model, "-o", program, "--quiet")
    if not harness.check(f"{name}/compile", status == 0, f"exit {status}: {(err or out)[-400:]}"):
        return
    shapes = {"images": (2, 1, 4, 4), "boxes": (1, 4), "pooled": (1, 1, 1, 2), "heads": (1, 1, 2, 4), "features": (2, 3),
              "series": (3, 2), "words": (3, 1, 2)}
    rest = {tensor: np.ones(shape, np.float32) for tensor, shape in shapes.items()}
    for changed, message in [({}, ""), *MADE_REFUSED]:
        indices = {tensor: np.array(array) for tensor, array in {**MADE_FITTING, **changed}.items()}
        status, err = run_places(program, rest | indices, env)
        harness.check(f"{name}/{changed}", status == (1 if changed else 0) and message in err, f"exit {status}: {err[-300:]}")


def check_chunks(name, compile_, env=None):
    folder = harness.scratch(f"indices_{name}")
    model, program = folder / "chunks.onnxtxt", folder / name
    model.write_text(CHUNKS)
    (folder / "chunks.yaml").write_text(IN_CHUNKS)
    status, out, err = compile_("compile", model, "-o", program, "--schedule", folder / "chunks.yaml", "--quiet")
    if not harness.check(f"{name}/compile", status == 0, f"exit {status}: {(err or out)[-400:]}"):
        return
    for index, wanted in ((49, 0), (50, 1), (-51, 1)):
        np.save(folder / "ids.npy", np.array([0] * 11 + [index] + [-50] * 4))
        status, _, err = harness.run([program, "--input", f"ids={folder / 'ids.npy'}"], env=env)
        told = wanted == 0 or f"node 'look' (Gather): index {index} lies outside of a dimension of 50 elements" in err
        harness.check(f"{name}/index {index}", status == wanted and told, f"exit {status}: {err[-300:]}")


def main():
    check_open()
    check_chunks("chunks", harness.weft)
    check_made("made", harness.weft)
    check_places("places", harness.weft, "weft: 1\n")
    check_places("places_sliced", harness.weft, SLICED)
    model = FOLDER / "look_up.onnxtxt"
    model.write_text(TEXT)
    (FOLDER / "two.yaml").write_text(SCHEDULE)
    for name, flags in (("one_rank", []), ("two_ranks", ["--schedule", FOLDER / "two.yaml"])):
        program = FOLDER / name
        status, out, err = harness.weft("compile", model, "-o", program, *flags)
        if harness.check(f"{name}/compile", status == 0, f"exit {status}: {(err or out)[-400:]}"):
            check_program(program)


if __name__ == "__main__":
    harness.need_weft()
    FOLDER = harness.scratch("indices")
    main()
