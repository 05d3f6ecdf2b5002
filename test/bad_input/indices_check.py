# test: fast
"""Indices from data that lie outside of what is looked up: exit 1 with node and value, on one rank and where the table is sliced."""

import numpy as np

import harness

FOLDER = harness.scratch("indices")
MODEL = FOLDER / "look_up.onnxtxt"
TEXT = """<ir_version: 10, opset_import: ["" : 20]>
g (int64[2,3] ids, int32[1,4] columns) => (float[2,3,4] y, float[4,7] z) <float[7,4] w = random(1, 0.5), int64[1] s = {4}> {
  [look] y = Gather(w, ids)
  flat = Reshape(columns, s)
  wide = Cast<to = 7>(flat)
  t = Transpose<perm = [1, 0]>(w)
  [pick] z = Gather(t, wide)
}
"""
# Of a run-time number of indices in a table of run-time length.
OPEN = """<ir_version: 10, opset_import: ["" : 20]>
g (int64[batch,n] ids, float[rows,2] table) => (float[batch,n,2] y) { [look] y = Gather(table, ids) }
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
    harness.check(f"{program.name}/behind a view and a cast", status == 1 and told, f"exit {status}: {err[-300:]}")
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


def main():
    check_open()
    MODEL.write_text(TEXT)
    (FOLDER / "two.yaml").write_text(SCHEDULE)
    for name, flags in (("one_rank", []), ("two_ranks", ["--schedule", FOLDER / "two.yaml"])):
        program = FOLDER / name
        status, out, err = harness.weft("compile", MODEL, "-o", program, *flags)
        if harness.check(f"{name}/compile", status == 0, f"exit {status}: {(err or out)[-400:]}"):
            check_program(program)


harness.need_weft()
main()
