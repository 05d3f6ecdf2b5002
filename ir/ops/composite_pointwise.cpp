// Composite ops that compute element by element: Gelu and its relatives, Clip, CastLike, Dropout, Trilu, EyeLike,
// SwiGLU, OneHot. They become chains of primitives, which fusion puts into one loop again:
//
//   Gelu(x)          ->  x * 0.5 * (Erf(x * sqrt(1/2)) + 1)
//   Clip(x, lo, hi)  ->  Min(Max(x, lo), hi)
//   Trilu(x, k)      ->  Where(column >= row + k, x, 0), with index patterns (Iota) that take no memory
#include <cmath>

#include "ir/ops/gradient.h"
#include "ir/ops/pointwise.h"

namespace weftc {

namespace {

/// x/2 * (1 + erf(x / sqrt 2))
ValueId exact_gelu(Builder& build, ValueId x) {
  const ValueId erf = build.op(OpKind::Erf, {with_scalar(build, OpKind::Mul, x, std::sqrt(0.5))});
  return multiply(build, with_scalar(build, OpKind::Mul, x, 0.5), with_scalar(build, OpKind::Add, erf, 1));
}

/// x/2 * (1 + tanh(sqrt(2/pi) * (x + 0.044715 x^3)))
ValueId tanh_gelu(Builder& build, ValueId x) {
  const ValueId cube = multiply(build, multiply(build, x, x), x);
  const ValueId inner = add(build, x, with_scalar(build, OpKind::Mul, cube, 0.044715));
  const ValueId tanh = build.op(OpKind::Tanh, {with_scalar(build, OpKind::Mul, inner, std::sqrt(2 / M_PI))});
  return multiply(build, with_scalar(build, OpKind::Mul, x, 0.5), with_scalar(build, OpKind::Add, tanh, 1));
}

bool infer_gelu(const OpView& op, std::vector<TensorType>& results) {
  return is_real_operand(op, 0) && infer_same(op, results);
}

std::vector<ValueId> decompose_gelu(Builder& build, const OpView& op) {
  const ValueId x = op.op().inputs[0];
  return {text_of(op.op(), "approximate") == "tanh" ? tanh_gelu(build, x) : exact_gelu(build, x)};
}

/// The Gelu variants of com.microsoft: x, and for some a bias that is broadcast to it.
bool infer_biased(const OpView& op, std::vector<TensorType>& results) {
  return is_real_operand(op, 0) && infer_broadcast(op, results);
}

/// x plus the bias, if the op has one.
ValueId biased(Builder& build, const OpView& op) {
  const std::vector<ValueId> in = op.op().inputs;
  return in.size() > 1 && in[1] ? add(build, in[0], in[1]) : in[0];
}

/// QuickGelu of com.microsoft: x * sigmoid(alpha * x).
std::vector<ValueId> decompose_quick_gelu(Builder& build, const OpView& op) {
  const ValueId x = op.op().inputs[0];
  const double alpha = real_of(op.op(), "alpha");
  return {multiply(build, x, build.op(OpKind::Sigmoid, {with_scalar(build, OpKind::Mul, x, alpha)}))};
}

bool infer_clip(const OpView& op, std::vector<TensorType>& results) {
  for (int i = 1; i < op.inputs(); ++i) {
    if (!op.has(i)) continue;
    if (!is_fixed(op, i)) return false;
    if (op.type(i).count() != 1) return op.fail("clip-bound", "operand {} must be one number", i);
  }
  return same_dtypes(op) && infer_same(op, results);
}

/// Bounds are operands since Clip-11 and attributes before. If low exceeds high the result is high (Clip-13), hence Min
/// comes last.
std::vector<ValueId> decompose_clip(Builder& build, const OpView& op) {
  const Op& clip = op.op();
  const ValueId x = clip.inputs[0];
  const auto bound = [&](int input, const char* attr) {
    if (op.has(input)) return op.type(input).ndim() ? build.reshape(clip.inputs[input], {}) : clip.inputs[input];
    return clip.has(attr) ? build.scalar(x, clip.real(attr)) : ValueId{};
  };
  const ValueId low = bound(1, "min"), high = bound(2, "max");
  const ValueId raised = low ? build.op(OpKind::Max, {x, low}) : x;
  return {high ? build.op(OpKind::Min, {raised, high}) : raised};
}

/// The derivative passes where x is between the bounds. At a constant bound it is 0. At a bound that may be trained, x
/// and the bound get half each, as for any maximum.
Derivatives gradient_of_clip(const BackwardStep& s) {
  const Term x = s.in(0), one = s.g.scalar(1);
  const auto bound = [&](size_t input, const char* attr) -> std::optional<Term> {
    if (s.has(input)) return s.in(input).reshape({});
    return s.op.has(attr) ? std::optional(x.scalar(s.real(attr))) : std::nullopt;
  };
  const auto share = [&](const Term& larger, const Term& smaller, int input) {
    const double at_bound = s.has(static_cast<size_t>(input)) && !s.view.known(input) ? 0.5 : 0;
    return (larger > smaller).choose(one, (larger == smaller).choose(s.g.scalar(at_bound), s.zero()));
  };
  const auto sum_like = [&](const Term& g, size_t input) {
    return g.reduce(OpKind::ReduceSum, range_of(0, static_cast<int>(g.dims().size())), false)
        .reshape(s.in(input).dims());
  };
  const std::optional<Term> low = bound(1, "min"), high = bound(2, "max");
  Derivatives derivatives{s.g, std::nullopt, std::nullopt};
  Term raised = x;
  if (low) raised = x.apply(OpKind::Max, *low);
  if (high) {
    const Term passes = share(*high, raised, 2);
    if (s.has(2)) derivatives[2] = sum_like(s.g * (1 - passes), 2);
    derivatives[0] = s.g * passes;
  }
  if (low) {
    const Term passes = share(x, *low, 1), g = *derivatives[0];
    if (s.has(1)) derivatives[1] = sum_like(g * (1 - passes), 1);
    derivatives[0] = g * passes;
  }
  return derivatives;
}

bool infer_cast_like(const OpView& op, std::vector<TensorType>& results) {
  results = {{op.type(1).dtype, op.type(0).shape, {}}};
  return true;
}

std::vector<ValueId> decompose_cast_like(Builder& build, const OpView& op) {
  const Op& like = op.op();
  if (op.type(0).dtype == op.type(1).dtype) return {like.inputs[0]};
  return {build.op(OpKind::Cast, {like.inputs[0]},
                   {{"round_mode", text_of(like, "round_mode")},
                    {"saturate", int_of(like, "saturate")},
                    {"to", dtype_attr(op.type(1).dtype)}})};
}

/// Dropout-12: ratio and training_mode are operands that must be known; before, ratio was an attribute. A mask
/// of random draws needs a shape that is known at compile time.
bool infer_dropout(const OpView& op, std::vector<TensorType>& results) {
  if (!is_known(op, 1, "ratio", "ratio") || !is_known(op, 2, "training_mode", "mode")) return false;
  const double ratio = real_of(op.op(), "ratio");
  if (!(ratio >= 0 && ratio < 1)) return op.fail("dropout-ratio", "the ratio must be at least 0 and below 1");
  const bool training = int_of(op.op(), "training_mode");
  if (training && !is_fixed(op, 0)) return false;
  results = {{op.type(0).dtype, op.type(0).shape, {}}, {DType::Bool, op.type(0).shape, {}}};
  return true;
}

/// In inference x itself. In training, elements whose draw is at least `ratio` are kept, times 1 / (1 - ratio). The
/// draw of an element depends on the node's index in the imported graph and on the element's global index. It is
/// therefore the same for every layout and chunking.
std::vector<ValueId> decompose_dropout(Builder& build, const OpView& op) {
  const Op& dropout = op.op();
  const ValueId x = dropout.inputs[0];
  const double ratio = real_of(dropout, "ratio");
  const Dims dims = op.dims(0);
  const bool wants_mask = dropout.outputs.size() > 1 && !op.graph().value(dropout.outputs[1]).uses.empty();
  if (!int_of(dropout, "training_mode") || ratio == 0) {
    if (!wants_mask) return {x, {}};
    const ValueId all = build.op(OpKind::Expand, {build.constant(Tensor::scalar(DType::Bool, 1))}, {{"shape", dims}});
    return {x, build.with_lengths(all, op.type(0).shape)};
  }
  const int64_t node = dropout.origins.empty() ? 0 : op.module().origins[dropout.origins[0].index].index;
  const ValueId draw = build.op(OpKind::RandomUniform, {}, {{"node", node}, {"shape", dims}});
  const ValueId keep = build.op(OpKind::GreaterOrEqual, {draw, build.scalar(draw, ratio)});
  const ValueId scaled = with_scalar(build, OpKind::Mul, x, 1 / (1 - ratio));
  return {build.op(OpKind::Where, {keep, scaled, build.scalar(x, 0)}), keep};
}

/// A diagonal that is not a constant must be one number.
bool infer_trilu(const OpView& op, std::vector<TensorType>& results) {
  if (op.has(1) && (op.type(1).dtype != DType::I64 || op.dims(1) != Dims(op.dims(1).size(), 1)))
    return op.fail("trilu-k", "the diagonal is {} of shape {}, expected one element of int64",
                   dtype_name(op.type(1).dtype), shape_text(op.type(1).shape));
  return has_ndim(op, 0, 2) && infer_same(op, results);
}

/// Keeps column >= row + k, or <= for the lower part. A diagonal beyond a corner of the matrix acts like one at that
/// corner.
std::vector<ValueId> decompose_trilu(Builder& build, const OpView& op) {
  const Term x(build, op.op().inputs[0]);
  const Shape shape = x.shape();
  const Extent &rows = shape[shape.size() - 2], &columns = shape.back();
  const auto k = static_cast<double>(int_of(op.op(), "k"));
  const ValueId counted = positions(build, DType::I64, rows.bound, 0, 2, 1, k).value();
  Term row(build, build.with_lengths(counted, {rows, Extent{1}}));
  if (op.has(1)) {
    const Term given = Term(build, op.op().inputs[1]).reshape({});
    row = row + given.clamp(static_cast<double>(-rows.bound), static_cast<double>(columns.bound));
  }
  const Term column = positions(build, DType::I64, columns, 1, 2);
  return {(int_of(op.op(), "upper") ? column >= row : column <= row).choose(x, x.scalar(0)).value()};
}

/// EyeLike-9: the operand gives the shape, and the element type unless there is a `dtype`.
bool import_eye_like(Graph& graph, OpId id, int, const OpView& view) { return import_dtype(graph, id, "dtype", view); }

bool infer_eye_like(const OpView& op, std::vector<TensorType>& results) {
  if (!has_ndim(op, 0, 2, 2)) return false;
  const DType dtype = op.op().has("dtype") ? dtype_of_attr(op.op().integer("dtype")) : op.type(0).dtype;
  results = {{dtype, op.type(0).shape, {}}};
  return true;
}

/// 1 where column == row + k.
std::vector<ValueId> decompose_eye_like(Builder& build, const OpView& op) {
  const Shape shape = op.type(0).shape;
  const DType dtype = op.result_type(0).dtype;
  const auto along = [&](int axis, double first) {
    Shape line(2, Extent{1});
    line[static_cast<size_t>(axis)] = shape[static_cast<size_t>(axis)];
    const int64_t count = line[static_cast<size_t>(axis)].bound;
    return Term(build, build.with_lengths(positions(build, DType::I64, count, axis, 2, 1, first).value(), line));
  };
  const Term row = along(0, static_cast<double>(int_of(op.op(), "k"))), column = along(1, 0);
  return {(column == row).cast(dtype).value()};
}

/// SwiGLU-28: the operands have one shape, nothing is broadcast.
bool infer_swiglu(const OpView& op, std::vector<TensorType>& results) {
  if (op.dims(0) != op.dims(1))
    return op.fail("swiglu-dims", "operands of shapes {} and {} must have one shape", dims_text(op.dims(0)),
                   dims_text(op.dims(1)));
  return is_real_operand(op, 0) && infer_broadcast(op, results);
}

/// a * sigmoid(alpha * a) * b
std::vector<ValueId> decompose_swiglu(Builder& build, const OpView& op) {
  const std::vector<ValueId> in = op.op().inputs;
  return {multiply(build, build.op(OpKind::Swish, {in[0]}, {{"alpha", real_of(op.op(), "alpha")}}), in[1])};
}

/// OneHot-11: the depth is the new dimension's extent, so it must be known at compile time.
bool infer_one_hot(const OpView& op, std::vector<TensorType>& results) {
  if (!is_given(op, 1, "depth", "depth")) return false;
  const std::optional<int64_t> axis = op.axis("axis", op.type(0).ndim() + 1);
  if (!axis) return false;
  if (op.type(2).count() != 2 || int_of(op.op(), "depth") < 0)
    return op.fail("one-hot-operands", "'values' must have two elements and 'depth' be positive");
  Shape shape = op.type(0).shape;
  shape.insert(shape.begin() + *axis, {int_of(op.op(), "depth"), {}});
  results = {{op.type(2).dtype, shape, {}}};
  return true;
}

/// Negative indices count from the end; others outside the depth select nothing.
std::vector<ValueId> decompose_one_hot(Builder& build, const OpView& op) {
  const std::vector<ValueId> in = op.op().inputs;
  const int64_t depth = int_of(op.op(), "depth"), ndim = op.type(0).ndim() + 1;
  const int64_t axis = from_front(int_of(op.op(), "axis"), ndim);
  Dims dims = op.dims(0), positions(ndim, 1);
  dims.insert(dims.begin() + axis, 1);
  positions[axis] = depth;
  const ValueId raw = build.cast(in[0], DType::I64);
  const ValueId is_negative = build.op(OpKind::Less, {raw, build.scalar(raw, 0)});
  const ValueId wrapped =
      build.op(OpKind::Where, {is_negative, with_scalar(build, OpKind::Add, raw, static_cast<double>(depth)), raw});
  const ValueId index = build.reshape(wrapped, dims);
  const ValueId position = build.op(OpKind::Iota, {}, {{"axis", axis}, {"shape", positions}});
  const auto value = [&](int64_t i) {
    return build.reshape(
        build.op(OpKind::Slice, {in[2]}, {{"ends", Dims{i + 1}}, {"starts", Dims{i}}, {"steps", Dims{1}}}), {});
  };
  return {build.op(OpKind::Where, {build.op(OpKind::Equal, {index, position}), value(1), value(0)})};
}

}  // namespace

const OpDef kGelu{.kind = OpKind::Gelu,
                  .name = "Gelu",
                  .onnx = {"Gelu"},  // since 20, but exporters also use it in older opsets
                  .aliases = {{"Gelu", 1, "com.microsoft"}},
                  .attrs = {choice("approximate", "none", "none tanh")},
                  .infer = infer_gelu,
                  .decompose = decompose_gelu};

const OpDef kBiasGelu{.kind = OpKind::BiasGelu,
                      .name = "BiasGelu",
                      .onnx = {"BiasGelu", 1, "com.microsoft"},
                      .inputs = {2, 2},
                      .infer = infer_biased,
                      .decompose = [](Builder& build, const OpView& op) -> std::vector<ValueId> {
                        return {exact_gelu(build, biased(build, op))};
                      }};

const OpDef kFastGelu{.kind = OpKind::FastGelu,
                      .name = "FastGelu",
                      .onnx = {"FastGelu", 1, "com.microsoft"},
                      .inputs = {1, 2},
                      .infer = infer_biased,
                      .decompose = [](Builder& build, const OpView& op) -> std::vector<ValueId> {
                        return {tanh_gelu(build, biased(build, op))};
                      }};

const OpDef kQuickGelu{.kind = OpKind::QuickGelu,
                       .name = "QuickGelu",
                       .onnx = {"QuickGelu", 1, "com.microsoft"},
                       .attrs = {{"alpha", AttrType::Real, 1.702}},
                       .infer = infer_biased,
                       .decompose = decompose_quick_gelu};

const OpDef kClip{.kind = OpKind::Clip,
                  .name = "Clip",
                  .onnx = {"Clip", 6},
                  .attrs = {{"max", AttrType::Real}, {"min", AttrType::Real}},
                  .inputs = {1, 3},
                  .infer = infer_clip,
                  .gradient = gradient_of_clip,
                  .decompose = decompose_clip};

const OpDef kCastLike{.kind = OpKind::CastLike,
                      .name = "CastLike",
                      .onnx = {"CastLike", 15},
                      .attrs = {choice("round_mode", "up", "up down nearest"), flag("saturate", 1)},
                      .inputs = {2, 2},
                      .infer = infer_cast_like,
                      .eval = eval_cast,
                      .decompose = decompose_cast_like,
                      .takes_strings = true};

const OpDef kDropout{.kind = OpKind::Dropout,
                     .name = "Dropout",
                     .onnx = {"Dropout", 7},
                     .attrs = {{"ratio", AttrType::Real, 0.5}, {"seed", AttrType::Int}, flag("training_mode", 0)},
                     .inputs = {1, 3},
                     .outputs = {1, 2},
                     .constant_operands = {{1, "ratio", AttrType::Real}, {2, "training_mode", AttrType::Int}},
                     .infer = infer_dropout,
                     .decompose = decompose_dropout};

const OpDef kTrilu{.kind = OpKind::Trilu,
                   .name = "Trilu",
                   .onnx = {"Trilu", 14},
                   .attrs = {{"k", AttrType::Int, 0}, flag("upper", 1)},
                   .inputs = {1, 2},
                   .constant_operands = {{1, "k", AttrType::Int, false}},
                   .infer = infer_trilu,
                   .decompose = decompose_trilu};

const OpDef kEyeLike{.kind = OpKind::EyeLike,
                     .name = "EyeLike",
                     .onnx = {"EyeLike", 9},
                     .attrs = {{"dtype", AttrType::Int}, {"k", AttrType::Int, 0}},
                     .import = import_eye_like,
                     .infer = infer_eye_like,
                     .decompose = decompose_eye_like};

const OpDef kSwiGLU{.kind = OpKind::SwiGLU,
                    .name = "SwiGLU",
                    .onnx = {"SwiGLU", 28},
                    .attrs = {{"alpha", AttrType::Real, 1.0}},
                    .inputs = {2, 2},
                    .infer = infer_swiglu,
                    .decompose = decompose_swiglu};

const OpDef kOneHot{.kind = OpKind::OneHot,
                    .name = "OneHot",
                    .onnx = {"OneHot", 9},
                    .attrs = {{"axis", AttrType::Int, -1}, {.name = "depth", .type = AttrType::Int, .is_own = true}},
                    .inputs = {3, 3},
                    .constant_operands = {{1, "depth", AttrType::Int}},
                    .infer = infer_one_hot,
                    .decompose = decompose_one_hot};

}  // namespace weftc
