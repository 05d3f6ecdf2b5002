// Steps of ONNX Runtime's training: InPlaceAccumulatorV2, and the optimizers SGDOptimizerV2 and AdamWOptimizer, which
// take all tensors as sequences. ONNX Runtime changes their operands in place. Here new values are results only.
//
//   SGDOptimizerV2(rate, [w0, w1], [g0, g1])  ->  true, [w0 - rate * g0, w1 - rate * g1]
#include "ir/ops/formula.h"
#include "ir/unfolding.h"

namespace weftc {

namespace {

/// Results from the second on stand for the operands that ONNX Runtime overwrites.
bool import_in_place(Graph&, OpId, int, const OpView& view) {
  const std::vector<ValueId>& results = view.op().outputs;
  if (results.size() < 2 || !results[1])
    view.warn(
        "in-place-unread",
        "{} changes its operands in place elsewhere; here the new values are results, of which this node has none",
        op_def(view.op()).name);
  return true;
}

// InPlaceAccumulatorV2.

bool infer_accumulator(const OpView& op, std::vector<TensorType>& results) {
  if (!is_real_operand(op, 0) || !is_real_operand(op, 1)) return false;
  if (op.dims(0) != op.dims(1))
    return op.fail("accumulator-dims", "a value of shape {} is added up in a buffer of shape {}", dims_text(op.dims(1)),
                   dims_text(op.dims(0)));
  if (op.has(2) && (op.type(2).dtype != DType::Bool || !is_static(op.type(2).shape) || op.type(2).count() != 1))
    return op.fail("accumulator-flag", "operand 2 must be one bool");
  results = {{DType::Bool, shape_of({1}), {}}, {op.type(0).dtype, op.type(0).shape, {}}};
  return true;
}

std::vector<ValueId> decompose_accumulator(Builder& build, const OpView& op) {
  const Term buffer(build, op.op().inputs[0]), value = Term(build, op.op().inputs[1]).cast(buffer.dtype());
  Term sum = buffer + value;
  if (op.has(2)) sum = Term(build, op.op().inputs[2]).reshape({}).choose(value, sum);
  return {constant(build, DType::Bool, {1}, {1}).value(), sum.value()};
}

// Optimizers. `first` is the number of the first operand that is a sequence.

/// The operands that are sequences, of equal length; nothing after reporting.
std::optional<std::vector<std::vector<ValueId>>> groups_of(Unfolding& op, int first, int count) {
  std::vector<std::vector<ValueId>> groups;
  for (int i = first; i < first + count; ++i) {
    std::optional<std::vector<ValueId>> group = op.sequence(i);
    if (!group) return {};
    groups.push_back(std::move(*group));
    if (groups.back().size() == groups[0].size()) continue;
    op.refuse("optimizer-sequences", "operand {} is a sequence of {}, operand {} one of {}", i, groups.back().size(),
              first, groups[0].size());
    return {};
  }
  return groups;
}

ValueId scalar_of(Unfolding& op, int input) {
  return op.add(OpKind::Reshape, {op.op().op().inputs[static_cast<size_t>(input)]}, {{"shape", Dims{}}});
}

/// Builds a step of `kind` for each tensor, from the scalars before the sequences and from its element of each
/// sequence. The first result says whether a step was made, in the shape of the last scalar. The others are sequences
/// of the steps' results.
std::vector<Unfolded> unfold_optimizer(Unfolding& op, OpKind kind, int first, int groups, int results) {
  const std::optional<std::vector<std::vector<ValueId>>> given = groups_of(op, first, groups);
  if (!given) return {};
  const bool is_conditional = op.op().has(first + groups);
  std::vector<ValueId> scalars;
  for (int i = 0; i < first; ++i) scalars.push_back(scalar_of(op, i));
  const ValueId flag = is_conditional ? scalar_of(op, first + groups) : op.constant(Tensor::scalar(DType::Bool, 1));
  std::vector<Unfolded> made{Unfolded::tensor(op.add(OpKind::Reshape, {flag}, {{"shape", op.op().dims(first - 1)}}))};
  made.resize(1 + static_cast<size_t>(results), Unfolded::sequence({}));
  for (size_t k = 0; k < (*given)[0].size(); ++k) {
    std::vector<ValueId> operands = scalars;
    for (const std::vector<ValueId>& group : *given) operands.push_back(group[k]);
    if (is_conditional) operands.push_back(flag);
    const std::vector<ValueId> next = op.add(kind, operands, op.op().op().attrs, results);
    for (int r = 0; r < results; ++r) made[1 + static_cast<size_t>(r)].tensors.push_back(next[static_cast<size_t>(r)]);
  }
  made.resize(op.op().op().outputs.size());
  return made;
}

/// Scalars, then tensors of one type, then an optional bool. There is a result for each tensor except the gradient.
template <int kScalars, int kTensors>
bool infer_step(const OpView& op, std::vector<TensorType>& results) {
  if (!is_real_operand(op, 0)) return false;
  for (int i = kScalars; i < kScalars + kTensors; ++i) {
    if (!is_real_operand(op, i)) return false;
    if (op.dims(i) != op.dims(kScalars) || op.type(i).dtype != op.type(kScalars).dtype)
      return op.fail("optimizer-step-dims", "of one tensor, operand {} is {}[{}], but the weight {}[{}]", i - kScalars,
                     dtype_name(op.type(i).dtype), dims_text(op.dims(i)), dtype_name(op.type(kScalars).dtype),
                     dims_text(op.dims(kScalars)));
  }
  constexpr int kFlag = kScalars + kTensors;
  if (op.has(kFlag) && op.type(kFlag).dtype != DType::Bool)
    return op.fail("optimizer-signal", "the update signal is {}, expected bool", dtype_name(op.type(kFlag).dtype));
  results.assign(kTensors - 1, {op.type(kScalars).dtype, op.type(kScalars).shape, {}});
  return true;
}

/// The next value, or the old one if the condition, optional operand `at`, is false.
ValueId unless_skipped(Builder& build, const OpView& op, int at, const Term& next, const Term& old) {
  return op.has(at) ? Term(build, op.op().inputs[static_cast<size_t>(at)]).choose(next, old).value() : next.value();
}

std::vector<ValueId> decompose_sgd_step(Builder& build, const OpView& op) {
  const Term w(build, op.op().inputs[1]), g(build, op.op().inputs[2]);
  const Term rate = Term(build, op.op().inputs[0]).cast(w.dtype());
  return {unless_skipped(build, op, 3, w - rate * g, w)};
}

/// adam_mode 0 is PyTorch's: it shrinks the weight first and adds epsilon to the corrected root. Mode 1 is that of
/// transformers and does the opposite in both.
std::vector<ValueId> decompose_adamw_step(Builder& build, const OpView& op) {
  const auto in = [&](int i) { return Term(build, op.op().inputs[static_cast<size_t>(i)]); };
  const auto attr = [&](const char* name) { return real_of(op.op(), name); };
  const Term w = in(2), g = in(3), rate = in(0).cast(w.dtype()), step = in(1).cast(w.dtype());
  const Term m = in(4) * attr("alpha") + g * (1 - attr("alpha"));
  const Term v = in(5) * attr("beta") + g * g * (1 - attr("beta"));
  const bool is_corrected = int_of(op.op(), "correct_bias");
  const auto left = [&](const char* base) {
    return is_corrected ? 1 - rate.scalar(attr(base)).apply(OpKind::Pow, step) : rate.scalar(1);
  };
  const Term left_root = left("beta").apply(OpKind::Sqrt), whole = rate / left("alpha");
  const Term shrink = 1 - rate * attr("weight_decay"), root = v.apply(OpKind::Sqrt);
  const double epsilon = attr("epsilon");
  const Term next = int_of(op.op(), "adam_mode") == 0 ? w * shrink - whole * m / (root / left_root + epsilon)
                                                      : (w - whole * left_root * m / (root + epsilon)) * shrink;
  return {unless_skipped(build, op, 6, next, w), unless_skipped(build, op, 6, m, in(4)),
          unless_skipped(build, op, 6, v, in(5))};
}

std::vector<AttrSpec> adamw_attrs() {
  return {flag("adam_mode", 0),    {"alpha", AttrType::Real, 0.9},    {"beta", AttrType::Real, 0.999},
          flag("correct_bias", 1), {"epsilon", AttrType::Real, 1e-8}, {"weight_decay", AttrType::Real, 1e-2}};
}

}  // namespace

const OpDef kInPlaceAccumulatorV2{.kind = OpKind::InPlaceAccumulatorV2,
                                  .name = "InPlaceAccumulatorV2",
                                  .onnx = {"InPlaceAccumulatorV2", 1, "com.microsoft"},
                                  .inputs = {2, 3},
                                  .outputs = {1, 2},
                                  .import = import_in_place,
                                  .infer = infer_accumulator,
                                  .decompose = decompose_accumulator};

const OpDef kSGDOptimizerV2{.kind = OpKind::SGDOptimizerV2,
                            .name = "SGDOptimizerV2",
                            .onnx = {"SGDOptimizerV2", 1, "com.microsoft"},
                            .inputs = {3, 4},
                            .outputs = {1, 2},
                            .import = import_in_place,
                            .unfold = [](Unfolding& op) { return unfold_optimizer(op, OpKind::SGDStep, 1, 2, 1); }};

const OpDef kAdamWOptimizer{.kind = OpKind::AdamWOptimizer,
                            .name = "AdamWOptimizer",
                            .onnx = {"AdamWOptimizer", 1, "com.microsoft"},
                            .attrs = adamw_attrs(),
                            .inputs = {6, 7},
                            .outputs = {1, 4},
                            .import = import_in_place,
                            .unfold = [](Unfolding& op) { return unfold_optimizer(op, OpKind::AdamWStep, 2, 4, 3); }};

// The step of one tensor.
const OpDef kSGDStep{.kind = OpKind::SGDStep,
                     .name = "SGDStep",
                     .inputs = {3, 4},
                     .infer = infer_step<1, 2>,
                     .decompose = decompose_sgd_step};

const OpDef kAdamWStep{.kind = OpKind::AdamWStep,
                       .name = "AdamWStep",
                       .attrs = adamw_attrs(),
                       .inputs = {6, 7},
                       .outputs = {3, 3},
                       .infer = infer_step<2, 4>,
                       .decompose = decompose_adamw_step};

}  // namespace weftc
