// A classifier with a bias and an activation, which tests of trainings share.
#pragma once

namespace weftc::test {

inline constexpr const char* kClassifier = R"(<ir_version: 10, opset_import: ["" : 20]>
m (float[8, 6] x, int64[8] labels) => (float[8, 4] y)
<float[6, 8] w1 = random(1, 0.5), float[8] b1 = random(2, 0.5), float[8, 4] w2 = random(3, 0.5)> {
  [fc1] h1 = MatMul(x, w1) [bias1] h2 = Add(h1, b1) [act] h = Gelu(h2) [fc2] y = MatMul(h, w2)
})";

}  // namespace weftc::test
