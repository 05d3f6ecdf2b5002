# test: slow
"""Ops that carry what a model remembers of tokens (TensorScatter, CausalConvWithState, LinearAttention, FlexAttention) for any
batch and number of tokens: one executable of many nodes equals ONNX's reference at each request. In `full` also on 2 ranks
that share the batch."""

import numpy as np
import onnx
from onnx.reference import ReferenceEvaluator

import harness

ROOM = 40  # tokens of a cache; full chunks of a LinearAttention and a rest
REQUESTS = [{"b": 4, "s": ROOM}, {"b": 2, "s": 1}, {"b": 1, "s": 17}, {"b": 3, "s": 5}]
TEXT = """<ir_version: 13, opset_import: ["" : 27, "ai.onnx.preview" : 1]>
g (float[b, 40, 3] cache, float[b, s, 3] rows, int64[b] at, float[b, 6, s] wave, float[b, 6, 3] before,
   float[b, s, 24] q, float[b, s, 12] k, float[b, s, 16] v, float[b, 2, 6, 8] state, float[b, s, 12] decay,
   float[b, s, 2] head_decay, float[b, s, 2] beta, float[b, 4, s, 6] flex_q, float[b, 2, m, 6] flex_k, float[b, 2, m, 5] flex_v,
   int64[b] filled, float[s, n] short_mask) => (linear, circular, without_at, y0, present0, y1, present1, y2, y3, y4, y5, y6, y7, present2, present3, present4, present5,
      flex, plain_flex, masked) {
  linear = TensorScatter<axis = 1>(cache, rows, at)
  circular = TensorScatter<axis = 1, mode = "circular">(cache, rows, at)
  without_at = TensorScatter<axis = 1>(cache, rows)
  y0, present0 = CausalConvWithState<activation = "silu">(wave, filter, bias, before)
  y1, present1 = CausalConvWithState(wave, filter)
  y2, present2 = LinearAttention<q_num_heads = 4, kv_num_heads = 2, update_rule = "linear">(q, k, v, state)
  y3, present3 = LinearAttention<q_num_heads = 4, kv_num_heads = 2, update_rule = "gated">(q, k, v, state, decay)
  y4, present4 = LinearAttention<q_num_heads = 4, kv_num_heads = 2, update_rule = "delta">(q, k, v, state, , beta)
  y5, present5 = LinearAttention<q_num_heads = 4, kv_num_heads = 2, scale = 0.5>(q, k, v, , head_decay, beta)
  y6, present6 = LinearAttention<q_num_heads = 4, kv_num_heads = 2>(q, k, v, state, decay, beta)
  y7, present7 = LinearAttention<q_num_heads = 2, kv_num_heads = 2, update_rule = "linear">(k, k, v)
  flex = ai.onnx.preview.FlexAttention<score_mod = tanh (float[b, h, n, m] x) => (float[b, h, n, m] t) { t = Tanh(x) }>(flex_q, flex_k, flex_v)
  masked = Attention<q_num_heads = 1, kv_num_heads = 1>(rows, cache, cache, short_mask, , , filled)
  plain_flex = ai.onnx.preview.FlexAttention(flex_q, flex_q, flex_q)
}"""
random = np.random.default_rng(3)


def real(*shape):
    return random.uniform(-1, 1, shape).astype(np.float32)


def inputs_of(request):
    b, s = request["b"], request["s"]
    keys = real(b, s, 2, 6)
    keys /= np.linalg.norm(keys, axis=-1, keepdims=True)
    return {"cache": real(b, ROOM, 3), "rows": real(b, s, 3), "at": random.integers(0, ROOM - s + 1, b), "wave": real(b, 6, s),
            "before": real(b, 6, 3), "q": real(b, s, 24), "k": keys.reshape(b, s, 12), "v": real(b, s, 16), "state": real(b, 2, 6, 8),
            "decay": -abs(real(b, s, 12)), "head_decay": -abs(real(b, s, 2)), "beta": abs(real(b, s, 2)),
            "filled": np.minimum(ROOM, s + np.arange(b)), "short_mask": real(s, min(ROOM, s + b)),
            "flex_q": real(b, 4, s, 6), "flex_k": real(b, 2, 9 - b, 6), "flex_v": real(b, 2, 9 - b, 5)}


def model():
    made = onnx.parser.parse_model(TEXT)
    weights = {"filter": real(6, 1, 4), "bias": real(6)}
    made.graph.initializer.extend(onnx.numpy_helper.from_array(value, name) for name, value in weights.items())
    return made


def run(program, folder, inputs):
    flags = []
    for key, value in inputs.items():
        np.save(folder / f"{key}.npy", value)
        flags += ["--input", f"{key}={folder / key}.npy"]
    status, _, err = harness.run([program, *flags, "--output-dir", folder / "out"])
    return status, err


def check_requests(name, program, folder, made):
    reference = ReferenceEvaluator(made)
    for number, request in enumerate(REQUESTS):
        inputs = inputs_of(request)
        status, err = run(program, folder, inputs)
        if not harness.check(f"{name}/{number}/runs", status == 0, f"exit {status}: {err[-600:]}"):
            continue
        for output, wanted in zip(reference.output_names, reference.run(None, inputs)):
            found = np.load(folder / "out" / f"{output}.npy")
            error = harness.relative_error(found, wanted) if found.shape == wanted.shape else np.inf
            harness.check(f"{name}/{number}/{output}", error <= 1e-4, f"{found.shape} {wanted.shape}, error {error:.1e}")


def check_refusals(program, folder):
    """Requests whose write would end outside of the cache, or begins before it."""
    for number, at in enumerate((ROOM - 4, -1)):
        inputs = {**inputs_of(REQUESTS[3]), "at": np.array([0, at, 0])}
        status, err = run(program, folder, inputs)
        harness.check(f"refused/{number}", status == 1 and "lies outside" in err, f"exit {status}: {err[-300:]}")


def main():
    folder = harness.scratch("open_token_states")
    made = model()
    onnx.save(made, folder / "model.onnx")
    schedules = {"one": ""}
    if harness.FULL:
        schedules["two"] = "weft: 1\nmesh: {dp: 2}\nshard: {q: {dp: 0}, wave: {dp: 0}, rows: {dp: 0}}\n"
    for name, schedule in schedules.items():
        path, program = folder / f"{name}.yaml", folder / name
        path.write_text(schedule or "weft: 1\n")
        flags = ["--dim", "b<=4", "--dim", f"s<={ROOM}", "--dim", "m<=9", "--dim", f"n<={ROOM}"]
        status, _, err = harness.weft("compile", folder / "model.onnx", *flags, "--schedule", path, "-o", program)
        if not harness.check(f"{name}/compiles", status == 0, f"exit {status}: {err[-900:]}"):
            continue
        check_requests(name, program, folder, made)
        if name == "one":
            check_refusals(program, folder)


harness.need_weft()
main()
