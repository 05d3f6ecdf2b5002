// MoE of com.microsoft: each token goes to the k experts that its router rates highest; their results are summed with
// the softmax of the ratings as weights. Here every expert computes every token, with a weight of 0 for tokens that did
// not choose it. That is one product a layer over all experts, which a schedule can slice by experts.
#include "ir/ops/formula.h"
#include "ir/ops/operand_shapes.h"

namespace weftc {

namespace {

constexpr int kRouter = 1, kFirst = 2, kFirstBias = 3, kSecond = 4, kSecondBias = 5, kGate = 6, kGateBias = 7;

/// The number of tokens: x is [tokens, hidden] or [batch, sequence, hidden].
Extent tokens_of(const OpView& op) { return joined(op, op.type(0).shape, 0, op.type(0).shape.size() - 1); }

/// Each token has a rating of each expert.
OperandShapes shape_of_ratings(const OpView& op) { return {{kRouter, {tokens_of(op), {op.dims(kRouter)[1], {}}}}}; }

std::vector<LengthRelation> relate_experts(const OpView& op) { return relations_of(op, shape_of_ratings(op)); }

/// The batch and the length of the sequence may be run-time lengths.
bool infer_experts(const OpView& op, std::vector<TensorType>& results) {
  for (int i = 2; i < op.inputs(); ++i)
    if (op.has(i) && !is_fixed(op, i)) return false;
  const int last = op.type(0).ndim() - 1;
  if (!is_fixed_dim(op, kRouter, 1) || (last >= 0 && !is_fixed_dim(op, 0, last))) return false;
  if (!is_real_operand(op, 0) || !has_ndim(op, 0, 2, 3) || !has_ndim(op, kRouter, 2, 2) ||
      !has_ndim(op, kFirst, 3, 3) || !has_ndim(op, kSecond, 3, 3))
    return false;
  if (op.op().integer_or("use_sparse_mixer", 0)) return op.fail("moe-unsupported", "use_sparse_mixer is not supported");
  const bool is_swiglu = text_of(op.op(), "activation_type") == "swiglu";
  const int64_t experts = op.dims(kRouter)[1], hidden = op.dims(0).back(), k = int_of(op.op(), "k");
  const int64_t inner = op.dims(kSecond)[2] * (is_swiglu ? 2 : 1);
  if (op.dims(kFirst) != Dims{experts, inner, hidden} || op.dims(kSecond)[0] != experts ||
      op.dims(kSecond)[1] != hidden || k < 1 || k > experts)
    return op.fail("moe-dims", "weights of shapes {} and {} do not fit {} experts and {} of a token of {}",
                   dims_text(op.dims(kFirst)), dims_text(op.dims(kSecond)), experts, k, hidden);
  if (is_swiglu && int_of(op.op(), "swiglu_fusion") == 0)
    return op.fail("moe-unsupported", "swiglu with weights that are not fused is not supported");
  return have_shapes(op, shape_of_ratings(op), "moe-dims") && infer_same(op, results);
}

/// The weight of each expert for each token [tokens, experts]; among equal ratings the first experts are chosen.
Term routing_weights(Builder& build, Term ratings, int64_t k, bool normalised) {
  const int64_t experts = ratings.dims()[1];
  const Term best = ratings.reduce(OpKind::ReduceMax, {1}, true);
  const Term exponentials = (ratings - best).apply(OpKind::Exp);
  const Term one(build, build.op(OpKind::Unsqueeze, {ratings.value()}, {{"axes", Dims{2}}}));
  const Term other(build, build.op(OpKind::Unsqueeze, {ratings.value()}, {{"axes", Dims{1}}}));
  const Term is_earlier = positions(build, DType::I64, experts, 1, 2) < positions(build, DType::I64, experts, 0, 2);
  const Term is_ahead = (other > one).apply(OpKind::Or, other == one && is_earlier);
  const Term place = is_ahead.cast(DType::F32).reduce(OpKind::ReduceSum, {2}, false);
  const Term chosen = (place < static_cast<double>(k)).choose(exponentials, exponentials.scalar(0));
  return chosen / (normalised ? chosen : exponentials).reduce(OpKind::ReduceSum, {1}, true);
}

/// SwiGLU as in GPT-OSS: (clamped linear part + beta) * gate * sigmoid(alpha * gate).
Term swiglu(const OpView& op, Term both) {
  const Shape d = both.shape();
  const int64_t inner = d[2].bound / 2;
  const bool interleaved = int_of(op.op(), "swiglu_fusion") == 1;
  const auto half = [&](int64_t which) {
    if (!interleaved) return both.slice(2, which * inner, (which + 1) * inner);
    const Term pairs = both.reshape_to({d[0], d[1], {inner, {}}, {2, {}}});
    return pairs.slice(3, which, which + 1).reshape_to({d[0], d[1], {inner, {}}});
  };
  Term gate = half(0), linear = half(1);
  if (op.op().has("swiglu_limit")) {
    const double limit = op.op().real("swiglu_limit");
    gate = gate.apply(OpKind::Min, limit), linear = linear.clamp(-limit, limit);
  }
  const Term open = gate * (gate * real_of(op.op(), "activation_alpha")).apply(OpKind::Sigmoid);
  return open * (linear + real_of(op.op(), "activation_beta"));
}

/// Gelu is the tanh form, as in ONNX Runtime's MoE.
Term activated(Builder& build, const OpView& op, Term x) {
  const std::string activation = text_of(op.op(), "activation_type");
  if (activation == "swiglu") return swiglu(op, x);
  if (activation == "silu") return x * x.apply(OpKind::Sigmoid);
  if (activation == "identity") return x;
  if (activation == "relu") return x.apply(OpKind::Relu);
  return {build, build.op(OpKind::Gelu, {x.value()}, {{"approximate", "tanh"}})};
}

std::vector<ValueId> decompose_experts(Builder& build, const OpView& op) {
  const Op own = op.op();
  const Shape shape = op.type(0).shape;
  const int64_t experts = op.dims(kRouter)[1];
  const Extent tokens = tokens_of(op), one{1};
  // [experts, tokens, out] from [tokens or experts, tokens, in] and weights [experts, out, in].
  const auto layer = [&](Term x, int weight, int bias) {
    const Term y = product(x, Term(build, own.inputs[weight]).transpose({0, 2, 1}));
    if (!op.has(bias)) return y;
    return y + Term(build, own.inputs[bias]).reshape({experts, 1, op.dims(bias)[1]});
  };
  const Term x = Term(build, own.inputs[0]).reshape_to({one, tokens, shape.back()});
  Term inner = activated(build, op, layer(x, kFirst, kFirstBias));
  if (op.has(kGate)) inner = inner * layer(x, kGate, kGateBias);
  const Term results = layer(inner, kSecond, kSecondBias);
  const Term weights =
      routing_weights(build, {build, own.inputs[kRouter]}, int_of(own, "k"), int_of(own, "normalize_routing_weights"));
  const Term weighed = results * weights.transpose({1, 0}).reshape_to({{experts, {}}, tokens, one});
  return {weighed.reduce(OpKind::ReduceSum, {0}, false).reshape_to(shape).value()};
}

}  // namespace

const OpDef kMoE{.kind = OpKind::MoE,
                 .name = "MoE",
                 .onnx = {"MoE", 1, "com.microsoft"},
                 .attrs = {{"activation_alpha", AttrType::Real, 1.0},
                           {"activation_beta", AttrType::Real, 0.0},
                           choice("activation_type", "relu", "relu gelu silu swiglu identity"),
                           {"k", AttrType::Int, 1},
                           flag("normalize_routing_weights", 0),
                           choice("swiglu_fusion", 0, "0 1 2"),
                           {"swiglu_limit", AttrType::Real},
                           flag("use_sparse_mixer", 0)},
                 .inputs = {5, 8, {3}},
                 .infer = infer_experts,
                 .relate = relate_experts,
                 .decompose = decompose_experts};

}  // namespace weftc
