# test: slow
"""Pipelines and loops as programs: places that overlap, stages of one place, draws inside a loop."""

import harness

CHAIN = """<ir_version: 10, opset_import: ["" : 20]>
p (float[12,4] x) => (float[12,4] h, float[12,4] y)
{ [fc] h = Relu(x)
  [act] a = Tanh(h)
  [res] t = Add(a, h)
  [end] y = Sigmoid(t) }
"""
DRAWS = """<ir_version: 10, opset_import: ["" : 20]>
p (float[4] x) => (float[4] y) <int64 k = {3}, int64 l = {2}>
{ [outer] y = Loop(k, , x) <body = b (int64 i, bool c, float[4] h) => (bool c, float[4] r) {
    [inner] g = Loop(l, , h) <body = d (int64 j, bool e, float[4] m) => (bool e, float[4] o) {
      [draw] u = RandomUniform <shape = [4]> ()
      [add] o = Add(m, u) }>
    [again] v = RandomUniform <shape = [4]> ()
    [sum] r = Add(g, v) }> }
"""
PLACES = "a: {ranks: [0], mesh: {t: 1}}, b: {ranks: [1], mesh: {t: 1}}, c: {ranks: [0, 1], mesh: {t: 2}}"
OVERLAPPING = "A: {place: a, nodes: [fc]}, B: {place: b, nodes: [act]}, C: {place: c, nodes: [res, end]}"
ONE_PLACE = "A: {place: c, nodes: [fc, act]}, B: {place: c, nodes: [res, end]}"
TABLE = "[[A, 0], [A, 1], [B, 0], [C, 0], [B, 1], [C, 1]]"


def check(name, model, schedule):
    folder = harness.scratch("pipelines_" + name.replace(" ", "_"))
    (folder / "m.onnxtxt").write_text(model)
    (folder / "s.yaml").write_text(schedule)
    status, out, err = harness.weft("verify", folder / "m.onnxtxt", "--schedule", folder / "s.yaml")
    harness.check(f"pipelines/{name}", status == 0, f"exit {status}: {(err or out)[-300:]}")
    status, out, err = harness.weft("explain", folder / "m.onnxtxt", "--schedule", folder / "s.yaml")
    harness.check(f"pipelines/{name} explained", status == 0, f"exit {status}: {err[-300:]}")


def pipeline(stages, micro_batches, order):
    head = f"weft: 1\nplaces: {{{PLACES}}}\npipeline:\n  stages: {{{stages}}}\n"
    return head + f"  micro_batches: {micro_batches}\n  order: {order}\n"


if __name__ == "__main__":
    harness.need_weft()
    check("gpipe", CHAIN, pipeline(OVERLAPPING, 3, "gpipe"))
    check("table", CHAIN, pipeline(OVERLAPPING, 2, TABLE))
    check("one place", CHAIN, pipeline(ONE_PLACE, 4, "1f1b"))
    check("one micro-batch", CHAIN, pipeline(OVERLAPPING, 1, "gpipe"))
    check("sliced output", CHAIN, "shard: {y: {t: 1}}\n" + pipeline(ONE_PLACE, 2, "gpipe"))
    # Rank 0 reads the input for both stages, each at a place of its own.
    check("an input at two places of a rank", CHAIN.replace("Add(a, h)", "Add(a, x)"),
          pipeline("A: {place: a, nodes: [fc, act]}, B: {place: c, nodes: [res, end]}", 3, "gpipe").replace(" b: {ranks: [1], mesh: {t: 1}},", ""))
    check("draws in loops", DRAWS, "weft: 1\n")
