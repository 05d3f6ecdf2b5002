// MaxPool and AveragePool over windows, and their global forms. A pool is lowered like a convolution whose
// weights are all one and whose sums stay within a channel (category Contraction); a global pool is a reduction
// over the spatial dims.
#include <cmath>
#include <limits>

#include "ir/ops/window.h"

namespace weftc {

/// x [N, C, spatial dims]. MaxPool's second result, the indices of the maxima, is supported only if nothing
/// reads it.
static bool infer_pool(const OpView& op, std::vector<TensorType>& results) {
  if (!has_ndim(op, 0, 3) || !is_fixed(op, 0)) return false;
  if (op.op().outputs.size() > 1 && !op.graph().value(op.op().outputs[1]).uses.empty())
    return op.fail("maxpool-indices-unsupported", "output 1 (indices) of MaxPool is not supported");
  if (!op.op().has("kernel_shape")) return op.fail("pool-kernel", "'kernel_shape' is missing");
  const std::optional<Window> window = window_of(op, {});
  if (!window) return false;
  Dims y{op.dims(0)[0], op.dims(0)[1]};
  for (const WindowDim& dim : *window) y.push_back(dim.out);
  results = {{op.type(0).dtype, shape_of(y), {}}, {DType::I64, shape_of(y), {}}};
  return true;
}

/// Batch and channels pass. Spatial dims of operand and result are whole, and two factors: a slice of a result
/// would need elements of the neighbouring slice.
static FactorRule factors_pool(const OpView& op) {
  const Dims x = op.dims(0), y = op.result_type(0).dims();
  FactorRule rule = pass_rule(op.type(0).shape);
  std::vector<int>&in = rule.inputs.emplace_back(), &out = rule.outputs.emplace_back();
  for (int d = 0; d < static_cast<int>(x.size()); ++d) {
    in.push_back(d);
    out.push_back(d < 2 ? d : static_cast<int>(rule.factors.size()));
    if (d < 2) continue;
    rule.factors[d].role = Factor::Role::Whole;
    rule.factors.push_back({y[d], Factor::Role::Whole, ReduceOp::Sum});
  }
  return rule;
}

/// Positions of the window at `at` inside the padded tensor (windows of ceil_mode may leave it).
static int64_t padded_count(const Window& window, const Index& at) {
  int64_t count = 1;
  for (int d = 0; d < static_cast<int>(window.size()); ++d) {
    const WindowDim& dim = window[d];
    int64_t inside = 0;
    for (int64_t k = 0; k < dim.kernel; ++k)
      if (at[2 + d] * dim.stride - dim.before + k * dim.dilation < dim.in + dim.behind) ++inside;
    count *= inside;
  }
  return count;
}

/// Elements in the padding are skipped. NaN is the maximum wherever it occurs, as weft::maximum has it.
/// ceil_mode may let a window leave the padded tensor; count_include_pad counts only what lies inside of it.
template <bool kMax>
static void eval_pool(EvalContext& context) {
  const Tensor& x = context.in(0);
  Tensor result(x.dtype, context.result_dims[0]);
  const Window window = window_of_attrs(context.op, x.dims, result.dims);
  const Dims strides = strides_of(x.dims), kernel = context.op.ints("kernel_shape");
  const bool include_pad = !kMax && int_of(context.op, "count_include_pad");
  for (Index at(result.dims); at.more(); at.next()) {
    double value = kMax ? -std::numeric_limits<double>::infinity() : 0;
    int64_t count = 0;
    for (Index k(kernel); k.more(); k.next()) {
      const int64_t from = window_source(window, strides, at, k, 2);
      if (from < 0) continue;
      const double item = x.at(at[0] * strides[0] + at[1] * strides[1] + from);
      if (!kMax)
        value += item;
      else if (item > value || std::isnan(item))
        value = item;
      ++count;
    }
    if (!kMax) value /= static_cast<double>(include_pad ? padded_count(window, at) : count);
    result.put(at.linear(), value);
  }
  context.results[0] = std::move(result);
}

static OpDef pool(OpKind kind, const char* name, EvalFn eval) {
  OpDef def;
  def.kind = kind;
  def.name = name;
  def.onnx = {name};
  def.attrs = window_attrs();
  def.attrs.push_back({"ceil_mode", AttrType::Int, 0});
  def.category = Category::Contraction;
  def.infer = infer_pool;
  def.canonicalize = [](Op& op, const OpView& view) { canonical_window(op, *window_of(view, {})); };
  def.factors = factors_pool;
  def.eval = eval;
  return def;
}

/// `storage_order` is about the indices, which do not exist here.
static OpDef max_pool() {
  OpDef def = pool(OpKind::MaxPool, "MaxPool", eval_pool<true>);
  def.attrs.push_back({"storage_order", AttrType::Int, 0});
  def.outputs = {1, 2};
  return def;
}

/// An average is linear: partial sums may pass it (L6).
static OpDef average_pool() {
  OpDef def = pool(OpKind::AveragePool, "AveragePool", eval_pool<false>);
  def.attrs.push_back({"count_include_pad", AttrType::Int, 0});
  def.linear = {{0}};
  return def;
}

/// Canonical attributes as those of Conv. Padding is never the maximum and counts in the mean only with
/// count_include_pad.
const OpDef kMaxPool = max_pool();
const OpDef kAveragePool = average_pool();

/// Spatial dims get extent 1.
static bool infer_global_pool(const OpView& op, std::vector<TensorType>& results) {
  if (!has_ndim(op, 0, 2)) return false;
  TensorType type{op.type(0).dtype, op.type(0).shape, {}};
  for (int d = 2; d < type.ndim(); ++d) type.shape[d] = {1, {}};
  results = {type};
  return true;
}

template <OpKind kReduce>
static std::vector<ValueId> decompose_global_pool(Builder& build, const OpView& op) {
  return {build.reduce(kReduce, op.op().inputs[0], range_of(2, op.type(0).ndim()), true)};
}

const OpDef kGlobalAveragePool{.kind = OpKind::GlobalAveragePool,
                               .name = "GlobalAveragePool",
                               .onnx = {"GlobalAveragePool"},
                               .infer = infer_global_pool,
                               .decompose = decompose_global_pool<OpKind::ReduceMean>};

const OpDef kGlobalMaxPool{.kind = OpKind::GlobalMaxPool,
                           .name = "GlobalMaxPool",
                           .onnx = {"GlobalMaxPool"},
                           .infer = infer_global_pool,
                           .decompose = decompose_global_pool<OpKind::ReduceMax>};

}  // namespace weftc
