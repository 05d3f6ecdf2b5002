# test: slow
"""Trainings in stages: every order takes the steps of one rank, goes on from its checkpoint, and evaluates as it does."""

import harness
from training_runs_check import SPLITS, build, check_evaluation, check_run, check_split, write_data

# By name: what stands in front of `train:`. Four micro-batches of two samples.
PIPELINE = "pipeline: {{stages: {stages}, micro_batches: 4, order: {order}}}\n"
TWO, FOUR = "{front: [h1, h2], back: rest}", "{a: h1, b: h2, c: h, d: rest}"
STAGES = {order: PIPELINE.format(stages=TWO, order=order) for order in ("gpipe", "1f1b", "zb-h1")}
STAGES["cut_by_time"] = PIPELINE.format(stages=3, order="1f1b")
STAGES["four"] = PIPELINE.format(stages=FOUR, order="1f1b")
STAGES["of_slices"] = SPLITS["data_parallel"] + PIPELINE.format(stages=TWO, order="zb-h1")
STAGES["of_sliced_parameters"] = SPLITS["sliced_parameters"] + PIPELINE.format(stages=TWO, order="1f1b")
STAGES["of_tensor_parallel"] = SPLITS["tensor_parallel"] + PIPELINE.format(stages=TWO, order="1f1b")
STAGES["twice_at_a_place"] = """places: {p: {ranks: [0], mesh: {}}, q: {ranks: [1], mesh: {}}}
pipeline:
  stages: {a: {place: p, nodes: h1}, b: {place: q, nodes: h2}, c: {place: p, nodes: h}, d: {place: q, nodes: rest}}
  micro_batches: 4
  order: interleaved
"""
STAGES["there_and_back"] = """places: {p: {ranks: [0], mesh: {}}, q: {ranks: [1], mesh: {}}}
pipeline:
  stages: {a: {place: p, nodes: h1}, b: {place: q, nodes: h2}, c: {place: q, nodes: h}, d: {place: p, nodes: rest}}
  micro_batches: 4
  order: 1f1b
"""
STAGES["on_shared_ranks"] = """places: {all: {ranks: [0, 1], mesh: {t: 2}}, p: {ranks: [0], mesh: {}}, q: {ranks: [1], mesh: {}}}
shard: {w2: {t: 0}}
pipeline:
  stages: {a: {place: p, nodes: h1}, b: {place: q, nodes: [h2, h]}, c: {place: all, nodes: rest}}
  micro_batches: 4
  order: 1f1b
"""
STAGES["by_a_table"] = """pipeline:
  stages: {front: [h1, h2], back: rest}
  micro_batches: 2
  order: [[front.forward, 0], [back.forward, 0], [front.forward, 1], [back.backward, 0], [back.forward, 1], [front.backward, 0],
          [back.backward, 1], [front.backward, 1]]
"""
STAGES["one_micro_batch"] = "pipeline: {stages: {front: [h1, h2], back: rest}, micro_batches: 1}\n"


def main():
    folder = harness.scratch("training_stages")
    write_data(folder)
    program = build(folder, "one")
    wanted = check_run(folder, program) if program else None
    if wanted is None:
        return
    for name, stages in STAGES.items():
        check_split(folder, name.replace("-", "_"), stages, wanted)
    check_split(folder, "computed_again", STAGES["1f1b"], wanted, "  recompute: all\n")
    for name in ("1f1b", "of_slices", "on_shared_ranks"):
        check_evaluation(folder, f"evaluation_{name}", STAGES[name], "", wanted)


if __name__ == "__main__":
    harness.need_weft()
    main()
