"""Writes two MLPs with residuals, the ends of two pipeline stages, in fp16.

    make.py OUTPUT.onnxtxt [--hidden 3072 --inner 12288]

Input: x float16 [batch, seq, hidden]. Output: y, of that type. `middle` crosses the boundary.
"""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
import text_model  # noqa: E402

TEXT = """<ir_version: 10, opset_import: ["" : 20]>
pipeline_boundary (float16[batch, seq, $hidden] x) => (float16[batch, seq, $hidden] y)
<
  float16[$hidden, $inner] up0_weight = random(1, $up_deviation), float16[$inner] up0_bias = random(2, 0.1),
  float16[$inner, $hidden] down0_weight = random(3, $down_deviation), float16[$hidden] down0_bias = random(4, 0.1),
  float16[$hidden, $inner] up1_weight = random(5, $up_deviation), float16[$inner] up1_bias = random(6, 0.1),
  float16[$inner, $hidden] down1_weight = random(7, $down_deviation), float16[$hidden] down1_bias = random(8, 0.1)
>
{
  [up0] up0 = MatMul(x, up0_weight)
  [up0_add] up0_add = Add(up0, up0_bias)
  [act0] act0 = Gelu <approximate = "tanh"> (up0_add)
  [down0] down0 = MatMul(act0, down0_weight)
  [bias0] bias0 = Add(down0, down0_bias)
  [residual0] middle = Add(bias0, x)
  [up1] up1 = MatMul(middle, up1_weight)
  [up1_add] up1_add = Add(up1, up1_bias)
  [act1] act1 = Gelu <approximate = "tanh"> (up1_add)
  [down1] down1 = MatMul(act1, down1_weight)
  [bias1] bias1 = Add(down1, down1_bias)
  [residual1] y = Add(bias1, middle)
}
"""


def deviations(sizes):
    return {"up_deviation": sizes["hidden"] ** -0.5, "down_deviation": sizes["inner"] ** -0.5}


if __name__ == "__main__":
    text_model.write(sys.argv[1:], __doc__, TEXT, {"hidden": 3072, "inner": 12288}, deviations)
