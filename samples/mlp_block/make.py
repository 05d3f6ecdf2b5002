"""Writes the MLP of a transformer's layer in training: two products, gelu, dropout, residual, normalisation, in fp16.

    make.py OUTPUT.onnxtxt [--hidden 3072 --inner 12288]

Input: x float16 [batch, seq, hidden]. Output: normed, of that type.
"""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
import text_model  # noqa: E402

TEXT = """<ir_version: 10, opset_import: ["" : 20]>
mlp_block (float16[batch, seq, $hidden] x) => (float16[batch, seq, $hidden] normed)
<
  float16[$hidden, $inner] up_weight = random(1, $up_deviation), float16[$inner] up_bias = random(2, 0.1),
  float16[$inner, $hidden] down_weight = random(3, $down_deviation), float16[$hidden] down_bias = random(4, 0.1),
  float16[$hidden] norm_weight = random(5, 1), float16[$hidden] norm_bias = random(6, 0.1),
  float ratio = {0.1}, bool training = {1}
>
{
  [up] up = MatMul(x, up_weight)
  [up_add] up_add = Add(up, up_bias)
  [act] act = Gelu <approximate = "tanh"> (up_add)
  [down] down = MatMul(act, down_weight)
  [bias] bias = Add(down, down_bias)
  [drop] drop = Dropout(bias, ratio, training)
  [add] add = Add(drop, x)
  [norm] normed = LayerNormalization <axis = -1> (add, norm_weight, norm_bias)
}
"""


def deviations(sizes):
    return {"up_deviation": sizes["hidden"] ** -0.5, "down_deviation": sizes["inner"] ** -0.5}


if __name__ == "__main__":
    text_model.write(sys.argv[1:], __doc__, TEXT, {"hidden": 3072, "inner": 12288}, deviations)
