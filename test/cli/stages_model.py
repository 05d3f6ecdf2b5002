"""A training in three stages, for checks of what is said of pipelines."""

PIPELINE_MODEL = """<ir_version: 10, opset_import: ["" : 20]>
m (float[12, 6] x, float[12, 6] target) => (float[12, 6] y)
<float[6, 64] w1 = random(1, 0.5), float[64, 64] w2 = random(2, 0.5), float[64, 6] w3 = random(3, 0.5)> {
  [fc1] h1 = MatMul(x, w1) [act1] g1 = Tanh(h1) [fc2] h2 = MatMul(g1, w2) [act2] g2 = Tanh(h2) [fc3] y = MatMul(g2, w3)
}"""
PIPELINE = """weft: 1
pipeline: {stages: {a: [fc1, act1], b: [fc2, act2], c: rest}, micro_batches: 6, order: zb-h1}
train:
  loss: {mean_squared_error: {predictions: y, targets: target}}
  optimizer: {sgd: {rate: 0.1}}
"""
