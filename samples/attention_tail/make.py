"""Writes the part of a layer after its attention: projection, bias, dropout, residual, normalisation, in fp16.

    make.py OUTPUT.onnxtxt [--hidden 3072]

Inputs: context (the heads' results) and residual, both float16 [batch, seq, hidden]. Output: normed, of that type.
"""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
import text_model  # noqa: E402

TEXT = """<ir_version: 10, opset_import: ["" : 20]>
attention_tail (float16[batch, seq, $hidden] context, float16[batch, seq, $hidden] residual)
  => (float16[batch, seq, $hidden] normed)
<
  float16[$hidden, $hidden] proj_weight = random(1, $deviation), float16[$hidden] proj_bias = random(2, 0.1),
  float16[$hidden] norm_weight = random(3, 1), float16[$hidden] norm_bias = random(4, 0.1),
  float ratio = {0.1}, bool training = {1}
>
{
  [proj] proj = MatMul(context, proj_weight)
  [bias] bias = Add(proj, proj_bias)
  [drop] drop = Dropout(bias, ratio, training)
  [add] add = Add(drop, residual)
  [norm] normed = LayerNormalization <axis = -1> (add, norm_weight, norm_bias)
}
"""


if __name__ == "__main__":
    text_model.write(sys.argv[1:], __doc__, TEXT, {"hidden": 3072}, lambda sizes: {"deviation": sizes["hidden"] ** -0.5})
