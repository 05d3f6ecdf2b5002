"""Writes a mixture-of-experts layer: each token goes to its best expert, which takes `capacity` tokens of a group.

    make.py OUTPUT.onnxtxt [--width 1024 --inner 4096 --experts 8 --capacity 160]

Input: x float [groups, tokens, width]. Output: y, of that type; tokens beyond an expert's capacity are 0 in it.
"""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
import text_model  # noqa: E402

TEXT = """<ir_version: 10, opset_import: ["" : 20]>
moe (float[groups, tokens, $width] x) => (float[groups, tokens, $width] y)
<
  float[$width, $experts] gate_weight = random(1, $up_deviation),
  float[$experts, $width, $inner] up_weight = random(2, $up_deviation),
  float[$experts, $inner, $width] down_weight = random(3, $down_deviation),
  int64 experts = {$experts}, int64 capacity = {$capacity}, float[2] off_on = {0, 1},
  int64 token_axis = {1}, int64[1] expert_axis = {2}
>
{
  [gate] gate = MatMul(x, gate_weight)
  [gate_softmax] probability = Softmax <axis = -1> (gate)
  [gate_best] best = ReduceMax <keepdims = 0> (probability, expert_axis)
  [gate_expert] expert = ArgMax <axis = -1, keepdims = 0> (gate)
  [gate_one_hot] chosen = OneHot <axis = -1> (expert, experts, off_on)
  [gate_earlier] earlier = CumSum <exclusive = 1> (chosen, token_axis)
  [gate_own] own = Mul(earlier, chosen)
  [gate_place] place = ReduceSum <keepdims = 0> (own, expert_axis)
  [gate_slot] slot = Cast <to = 7> (place)
  [gate_slot_one_hot] placed = OneHot <axis = -1> (slot, capacity, off_on)
  [gate_mask] mask = Einsum <equation = "gte,gtc->gtec"> (chosen, placed)
  [gate_scale] scale = Einsum <equation = "gtec,gt->gtec"> (mask, best)
  [dispatch] dispatched = Einsum <equation = "gtec,gtw->egcw"> (mask, x)
  [up] up = Einsum <equation = "egcw,ewi->egci"> (dispatched, up_weight)
  [act] act = Relu(up)
  [down] returned = Einsum <equation = "egci,eiw->egcw"> (act, down_weight)
  [combine] y = Einsum <equation = "gtec,egcw->gtw"> (scale, returned)
}
"""


def deviations(sizes):
    return {"up_deviation": sizes["width"] ** -0.5, "down_deviation": sizes["inner"] ** -0.5}


if __name__ == "__main__":
    sizes = {"width": 1024, "inner": 4096, "experts": 8, "capacity": 160}
    text_model.write(sys.argv[1:], __doc__, TEXT, sizes, deviations)
