// LinearAttention against its recurrence, token by token, over several chunks; what it and other ops with a state
// refuse.
#include <doctest/doctest.h>

#include <cmath>
#include <limits>

#include "ops_test.h"

namespace weftc {

namespace {

constexpr int64_t kBatch = 2, kHeads = 2, kGroup = 2, kKeys = 3, kValues = 4;

Tensor noise(Dims dims, double phase, double scale = 1, double offset = 0) {
  Tensor t(DType::F32, std::move(dims));
  for (int64_t i = 0; i < t.size(); ++i)
    t.real[i] = offset + scale * std::sin(phase + static_cast<double>(i * i % 1009));
  return t;
}

/// Operands of a sequence: query, key, value, past state, decay, beta.
struct Sequence {
  int64_t tokens, decays;
  Tensor q, k, v, state, decay, beta;

  Sequence(int64_t tokens, int64_t decays)
      : tokens(tokens),
        decays(decays),
        q(noise({kBatch, tokens, kHeads * kGroup * kKeys}, 1)),
        k(noise({kBatch, tokens, kHeads * kKeys}, 2, 0.5)),
        v(noise({kBatch, tokens, kHeads * kValues}, 3)),
        state(noise({kBatch, kHeads, kKeys, kValues}, 4)),
        decay(noise({kBatch, tokens, kHeads * decays}, 5, 0.2, -0.2)),
        beta(noise({kBatch, tokens, kHeads}, 6, 0.4, 0.5)) {}
};

/// The results of one head and batch, token by token, by the definition.
void run_head(const Sequence& s, bool gated, bool delta, int64_t b, int64_t h, Tensor& y, Tensor& present) {
  double* const state = &present.real[(b * kHeads + h) * kKeys * kValues];
  for (int64_t t = 0; t < s.tokens; ++t) {
    const int64_t token = b * s.tokens + t;
    const double* const key = &s.k.real[(token * kHeads + h) * kKeys];
    for (int64_t i = 0; i < kKeys * kValues && gated; ++i)
      state[i] *= std::exp(s.decay.real[(token * kHeads + h) * s.decays + (s.decays == 1 ? 0 : i / kValues)]);
    for (int64_t j = 0; j < kValues; ++j) {
      double value = s.v.real[(token * kHeads + h) * kValues + j], found = 0;
      for (int64_t i = 0; i < kKeys; ++i) found += key[i] * state[i * kValues + j];
      if (delta) value = s.beta.real[token * kHeads + h] * (value - found);
      for (int64_t i = 0; i < kKeys; ++i) state[i * kValues + j] += key[i] * value;
    }
    for (int64_t g = 0; g < kGroup; ++g)
      for (int64_t j = 0; j < kValues; ++j) {
        double sum = 0;
        for (int64_t i = 0; i < kKeys; ++i)
          sum += s.q.real[((token * kHeads + h) * kGroup + g) * kKeys + i] * state[i * kValues + j];
        y.real[((token * kHeads + h) * kGroup + g) * kValues + j] = 0.5 * sum;
      }
  }
}

void check_rule(const std::string& rule, const Sequence& s, bool has_state) {
  CAPTURE(rule);
  CAPTURE(s.tokens);
  const bool gated = rule.starts_with("gated"), delta = rule.ends_with("delta");
  Tensor y(DType::F32, {kBatch, s.tokens, kHeads * kGroup * kValues});
  Tensor present = has_state ? s.state : Tensor(DType::F32, s.state.dims);
  for (int64_t b = 0; b < kBatch; ++b)
    for (int64_t h = 0; h < kHeads; ++h) run_head(s, gated, delta, b, h, y, present);
  OneOp one;
  std::vector<ValueId> operands{one.input(s.q), one.input(s.k), one.input(s.v)};
  operands.push_back(has_state ? one.input(s.state) : ValueId{});
  operands.push_back(gated ? one.input(s.decay) : ValueId{});
  operands.push_back(delta ? one.input(s.beta) : ValueId{});
  const Attrs attrs{{"kv_num_heads", kHeads}, {"q_num_heads", kHeads * kGroup}, {"scale", 0.5}, {"update_rule", rule}};
  REQUIRE(one.add(OpKind::LinearAttention, operands, attrs, 2));
  REQUIRE(one.decompose());
  const std::vector<Tensor> results = one.run();
  CHECK(relative_error(results[0], y) < 1e-6);
  CHECK(relative_error(results[1], present) < 1e-6);
}

std::string refusal(OpKind kind, const std::vector<Tensor>& inputs, const Attrs& attrs) {
  OneOp one;
  std::vector<ValueId> operands;
  for (const Tensor& tensor : inputs) operands.push_back(tensor.dims.empty() ? ValueId{} : one.input(tensor));
  CHECK(!one.add(kind, operands, attrs));
  return one.diags.all()[0].id;
}

}  // namespace

TEST_CASE("LinearAttention is its recurrence: one token, a part of a chunk, several chunks") {
  for (const int64_t tokens : {1, 5, 8, 150})
    for (const std::string rule : {"linear", "gated", "delta", "gated_delta"}) {
      check_rule(rule, Sequence(tokens, 1), tokens != 8);
      if (rule.starts_with("gated")) check_rule(rule, Sequence(tokens, kKeys), tokens != 5);
    }
}

TEST_CASE("LinearAttention forgets all that stands before a decay of -infinity") {
  for (const char* rule : {"gated", "gated_delta"}) {
    Sequence s(70, kKeys);
    for (const int64_t token : {0, 7, 8, 66})
      for (int64_t i = 0; i < kHeads * kKeys; ++i)
        s.decay.real[static_cast<size_t>(token * kHeads * kKeys + i)] = -std::numeric_limits<double>::infinity();
    check_rule(rule, s, true);
  }
}

TEST_CASE("LinearAttention keeps the digits of equal keys, whose system has no small powers") {
  Sequence s(64, 1);
  for (double& element : s.k.real) element = 0.577;
  for (double& element : s.beta.real) element = 1;
  check_rule("delta", s, true);
}

TEST_CASE("LinearAttention refuses gates that its rule does not have, and heads that do not fit") {
  const Sequence s(3, 1);
  const Tensor none(DType::F32, {});
  const auto heads = [](int64_t key_heads, const std::string& rule) {
    return Attrs{{"kv_num_heads", key_heads}, {"q_num_heads", kHeads * kGroup}, {"update_rule", rule}};
  };
  const std::vector<Tensor> plain{s.q, s.k, s.v};
  CHECK(refusal(OpKind::LinearAttention, plain, heads(kHeads, "gated")) == "linear-attention-gate");
  CHECK(refusal(OpKind::LinearAttention, {s.q, s.k, s.v, none, none, s.beta}, heads(kHeads, "linear")) ==
        "linear-attention-gate");
  CHECK(refusal(OpKind::LinearAttention, plain, heads(3, "linear")) == "linear-attention-heads");
  CHECK(refusal(OpKind::LinearAttention, plain, heads(kHeads, "other")) == "attribute-choice");
  CHECK(refusal(OpKind::LinearAttention, {s.q, s.k, s.v, s.q}, heads(kHeads, "linear")) == "linear-attention-dims");
}

TEST_CASE("caches refuse what does not fit") {
  const Tensor cache(DType::F32, {2, 4, 3}), update(DType::F32, {2, 5, 3}), at = ints({3}, {0, 0, 0}),
                                                                            narrow = ints({2}, {0, 0}, DType::I32);
  CHECK(refusal(OpKind::TensorScatter, {cache, update}, {}) == "tensor-scatter-dims");
  CHECK(refusal(OpKind::TensorScatter, {cache, cache}, {{"axis", int64_t{0}}}) == "tensor-scatter-axis");
  CHECK(refusal(OpKind::TensorScatter, {cache, cache, at}, {}) == "tensor-scatter-dims");
  CHECK(refusal(OpKind::TensorScatter, {cache, cache, narrow}, {}) == "tensor-scatter-indices");
  CHECK(refusal(OpKind::TensorScatter, {cache, cache}, {{"mode", std::string("far")}}) == "attribute-choice");
  const Tensor wave(DType::F32, {2, 3, 9}), filter(DType::F32, {3, 1, 4});
  CHECK(refusal(OpKind::CausalConvWithState, {wave, cache}, {}) == "causal-conv-dims");
  CHECK(refusal(OpKind::CausalConvWithState, {wave, filter}, {{"activation", std::string("relu")}}) ==
        "attribute-choice");
}

TEST_CASE("a convolution with one tap keeps no state") {
  const Tensor wave = noise({1, 2, 5}, 1), filter = reals({2, 1, 1}, {2, 3});
  OneOp one;
  REQUIRE(one.add(OpKind::CausalConvWithState, {one.input(wave), one.input(filter)}, {}, 2));
  REQUIRE(one.decompose());
  const std::vector<Tensor> results = one.run();
  for (int64_t i = 0; i < 10; ++i) CHECK(results[0].real[i] == doctest::Approx(wave.real[i] * (i < 5 ? 2 : 3)));
  CHECK(results[1].dims == Dims{1, 2, 0});
}

}  // namespace weftc
