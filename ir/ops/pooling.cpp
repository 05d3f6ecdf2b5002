// MaxPool and AveragePool over windows, and their global forms. A pool is lowered like a convolution whose weights are
// all one and whose sums stay within a channel (category Contraction). A global pool is a reduction over the spatial
// dims.
#include <cmath>
#include <limits>

#include "ir/ops/gradient.h"
#include "ir/ops/sampling.h"
#include "ir/ops/window.h"
#include "ir/ops/window_gradient.h"

namespace weftc {

/// x [N, C, spatial dims]. MaxPool's second result has the indices of the maxima.
static bool infer_pool(const OpView& op, std::vector<TensorType>& results) {
  if (!has_ndim(op, 0, 3) || !is_fixed_dim(op, 0, 1)) return false;
  if (!op.op().has("kernel_shape")) return op.fail("pool-kernel", "'kernel_shape' is missing");
  const std::optional<Window> window = window_of(op, {});
  const std::optional<Shape> y = window ? windows_shape(op, *window, op.type(0).shape[1]) : std::nullopt;
  if (!y) return false;
  results = {{op.type(0).dtype, *y, {}}, {DType::I64, *y, {}}};
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
  rule.outputs.resize(op.op().outputs.size(), rule.outputs[0]);  // indices without readers
  return rule;
}

/// Positions of the window at `at` inside the padded tensor (windows of ceil_mode may leave it).
static int64_t padded_count(const Window& window, const Index& at) {
  int64_t count = 1;
  for (int d = 0; d < static_cast<int>(window.size()); ++d) {
    const WindowDim& dim = window[d];
    int64_t inside = 0;
    for (int64_t k = 0; k < dim.kernel; ++k)
      if (at[2 + d] * dim.stride - dim.before + k * dim.dilation < dim.in + dim.after) ++inside;
    count *= inside;
  }
  return count;
}

/// Calls take(position in x) for each element of the window at `at` that is not in the padding.
template <class Take>
static void each_in_window(const Window& window, const Dims& strides, const Dims& kernel, const Index& at, Take take) {
  const int64_t image = at[0] * strides[0] + at[1] * strides[1];
  for (Index k(kernel); k.more(); k.next())
    if (const int64_t from = window_source(window, strides, at, k, 2); from >= 0) take(image + from);
}

/// With ceil_mode a window may exceed the padded tensor; count_include_pad counts only elements inside of it.
static void eval_average_pool(EvalContext& context) {
  const Tensor& x = context.in(0);
  Tensor result(x.dtype, context.result_dims[0]);
  const Window window = window_of_attrs(context.op, x.dims, result.dims);
  const Dims strides = strides_of(x.dims), kernel = context.op.ints("kernel_shape");
  const bool include_pad = int_of(context.op, "count_include_pad");
  for (Index at(result.dims); at.more(); at.next()) {
    double sum = 0;
    int64_t count = 0;
    each_in_window(window, strides, kernel, at, [&](int64_t from) {
      sum += x.at(from);
      ++count;
    });
    result.put(at.linear(), sum / static_cast<double>(include_pad ? padded_count(window, at) : count));
  }
  context.results[0] = std::move(result);
}

/// The index of an element of x in MaxPool's second result; with storage_order 1 the first spatial dim varies fastest.
static int64_t stored_index(const Op& op, const Dims& dims, int64_t linear) {
  if (!int_of(op, "storage_order")) return linear;
  const Dims strides = strides_of(dims);
  int64_t index = linear / strides[1] * strides[1], step = 1;
  for (size_t d = 2; d < dims.size(); step *= dims[d++]) index += linear / strides[d] % dims[d] * step;
  return index;
}

/// NaN is the maximum wherever it occurs, as in weft::maximum. The index is the first maximum's.
static void eval_max_pool(EvalContext& context) {
  const Tensor& x = context.in(0);
  Tensor result(x.dtype, context.result_dims[0]), indices(DType::I64, context.result_dims[0]);
  const Window window = window_of_attrs(context.op, x.dims, result.dims);
  const Dims strides = strides_of(x.dims), kernel = context.op.ints("kernel_shape");
  for (Index at(result.dims); at.more(); at.next()) {
    double value = -std::numeric_limits<double>::infinity();
    int64_t best = -1;
    each_in_window(window, strides, kernel, at, [&](int64_t from) {
      const double item = x.at(from);
      const bool is_larger = item > value || (std::isnan(item) && !std::isnan(value));
      if (is_larger) value = item;
      if (is_larger || best < 0) best = from;
    });
    result.put(at.linear(), value);
    indices.integers[at.linear()] = stored_index(context.op, x.dims, best);
  }
  context.results[0] = std::move(result);
  if (context.results.size() > 1) context.results[1] = std::move(indices);
}

static bool wants_indices(const OpView& op) {
  return op.op().outputs.size() > 1 && !op.graph().value(op.op().outputs[1]).uses.empty();
}

/// The position of window element k of each output in one dimension. An element in the padding is replaced by the first
/// one outside the padding: this changes neither the maximum nor which of equal elements is first.
static std::vector<int64_t> window_positions(const WindowDim& dim) {
  std::vector<int64_t> positions;
  for (int64_t o = 0; o < dim.out; ++o) {
    const int64_t start = o * dim.stride - dim.before;
    const int64_t first = start < 0 ? start + (-start + dim.dilation - 1) / dim.dilation * dim.dilation : start;
    for (int64_t k = 0; k < dim.kernel; ++k) {
      const int64_t at = start + k * dim.dilation;
      positions.push_back(at >= 0 && at < dim.in ? at : std::min(first, dim.in - 1));
    }
  }
  return positions;
}

/// The elements of all windows, [N, C, outs, window], for ArgMax to find the first maximum.
static Term unfolded(Builder& build, Term x, const Window& window) {
  std::vector<int64_t> perm{0, 1}, windows;
  Dims dims{x.dims()[0], x.dims()[1]};
  int64_t each = 1;
  for (size_t d = 0; d < window.size(); ++d) {
    const Term positions = Term(build, build.ints(window_positions(window[d])));
    x = gather(build, x, positions.reshape({window[d].out, window[d].kernel}), static_cast<int64_t>(2 + 2 * d));
    perm.push_back(static_cast<int64_t>(2 + 2 * d));
    windows.push_back(static_cast<int64_t>(3 + 2 * d));
    dims.push_back(window[d].out);
    each *= window[d].kernel;
  }
  perm.insert(perm.end(), windows.begin(), windows.end());
  dims.push_back(each);
  return x.transpose(perm).reshape(dims);
}

/// The pool computes the maxima. The number of each one in its window gives its position in every dimension.
static std::vector<ValueId> decompose_max_pool(Builder& build, const OpView& op) {
  const Op& pool = op.op();
  if (!is_fixed(op, 0)) return {};
  const Dims dims = op.dims(0), y = op.result_type(0).dims();
  const int ndim = static_cast<int>(dims.size());
  const Window window = window_of_attrs(pool, dims, y);
  const Term x(build, pool.inputs[0]);
  const Term which(build, build.op(OpKind::ArgMax, {unfolded(build, x, window).value()},
                                   {{"axis", int64_t{ndim}}, {"keepdims", int64_t{0}}}));
  Term index = image_positions(build, shape_of(dims), ndim);
  const bool first_fastest = int_of(pool, "storage_order");
  int64_t inner = element_count(pool.ints("kernel_shape")), stride = 1;
  for (size_t d = 0; d < window.size(); ++d) {
    const WindowDim& dim = window[d];
    inner /= dim.kernel;
    const Term k = which / static_cast<double>(inner) % static_cast<double>(dim.kernel);
    const Term row =
        positions(build, DType::I64, dim.out, static_cast<int>(2 + d), ndim, static_cast<double>(dim.kernel));
    const Term at = pick(build, Term(build, build.ints(window_positions(dim))), row + k, 0);
    index = index + at * static_cast<double>(first_fastest ? stride : strides_of(dims)[2 + d]);
    stride *= dim.in;
  }
  return {build.op(OpKind::MaxPool, {x.value()}, pool.attrs), index.value()};
}

/// Each maximum's derivative goes to its element, the first of equal ones. Result 1 has that element's number in the
/// whole image.
static Derivatives gradient_of_max_pool(const BackwardStep& s) {
  if (int_of(s.op, "storage_order")) {
    s.view.fail("gradient-unsupported", "there is no rule for the gradient of MaxPool ('{}') with storage_order 1",
                s.op.name);
    return {};
  }
  // Works within one channel of one image: others may be on other ranks.
  const Dims dims = s.in(0).dims(), y = s.g.dims();
  const int64_t rows = dims[0] * dims[1], elements = element_count(dims) / rows, windows = element_count(y) / rows;
  const Term zeros = s.zero().expand({rows, elements}), g = s.g.reshape({rows, windows});
  const Term at = (s.out(1) % static_cast<double>(elements)).reshape({rows, windows});
  return {
      Term(s.build, s.build.op(OpKind::ScatterElements, {zeros.value(), at.value(), g.value()},
                               {{"axis", int64_t{1}}, {"onto_zeros", int64_t{1}}, {"reduction", std::string("add")}}))
          .reshape(dims)};
}

/// The number of elements that the mean counts in each window of one dim.
static std::vector<double> counts_of_windows(const WindowDim& dim, bool include_pad) {
  std::vector<double> counts;
  const int64_t first = include_pad ? -dim.before : 0, end = dim.in + (include_pad ? dim.after : 0);
  for (int64_t o = 0; o < dim.out; ++o) {
    int64_t count = 0;
    for (int64_t k = 0; k < dim.kernel; ++k) {
      const int64_t at = o * dim.stride - dim.before + k * dim.dilation;
      count += at >= first && at < end;
    }
    counts.push_back(static_cast<double>(count));
  }
  return counts;
}

/// An average is a convolution of each channel with ones, divided by the count of each window.
static Derivatives gradient_of_average_pool(const BackwardStep& s) {
  const Dims x = s.in(0).dims();
  const Window window = window_of_attrs(s.op, x, s.g.dims());
  Term g = s.g;
  for (size_t d = 0; d < window.size(); ++d) {
    std::vector<double> shares;
    for (const double count : counts_of_windows(window[d], int_of(s.op, "count_include_pad") != 0))
      shares.push_back(1 / count);
    Dims dims(x.size(), 1);
    dims[2 + d] = window[d].out;
    g = g * constant(s.build, g.dtype(), dims, shares);
  }
  Dims ones{x[1], 1};
  for (const WindowDim& dim : window) ones.push_back(dim.kernel);
  return {spread_over_windows(s.build, g, s.g.scalar(1).expand(ones), window, x[1])};
}

static OpDef pool(OpKind kind, const char* name, EvalFn eval) {
  OpDef def;
  def.kind = kind;
  def.name = name;
  def.onnx = {name};
  def.attrs = window_attrs();
  def.attrs.push_back(flag("ceil_mode", 0));
  def.category = Category::Contraction;
  def.infer = infer_pool;
  def.canonicalize = [](Op& op, const OpView& view) { canonical_window(op, *window_of(view, {}), view.type(0).shape); };
  def.factors = factors_pool;
  def.eval = eval;
  return def;
}

/// `storage_order` only affects the indices.
static OpDef max_pool() {
  OpDef def = pool(OpKind::MaxPool, "MaxPool", eval_max_pool);
  def.attrs.push_back(flag("storage_order", 0));
  def.outputs = {1, 2};
  def.gradient = gradient_of_max_pool;
  def.kept_results = 2;
  def.decompose = decompose_max_pool;
  def.is_primitive = [](const OpView& op) { return !wants_indices(op); };
  return def;
}

/// An average is linear: partial sums may pass it (L6).
static OpDef average_pool() {
  OpDef def = pool(OpKind::AveragePool, "AveragePool", eval_average_pool);
  def.attrs.push_back(flag("count_include_pad", 0));
  def.linear = {{0}};
  def.gradient = gradient_of_average_pool;
  return def;
}

/// Canonical attributes as for Conv. Padding is never the maximum and counts in the mean only with count_include_pad.
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

/// The first one of equal maxima gets all of g, as in other pools.
static Derivatives gradient_of_global_max_pool(const BackwardStep& s) {
  const Dims dims = s.in(0).dims();
  const Term is_largest = s.in(0) == s.out();
  const Term in_row =
      is_largest.cast(s.g.dtype()).reshape({dims[0], dims[1], element_count({dims.begin() + 2, dims.end()})});
  const Attrs along = {{"axis", int64_t{2}}, {"exclusive", int64_t{0}}, {"reverse", int64_t{0}}};
  const Term rank(s.build, s.build.op(OpKind::CumSum, {in_row.value()}, along));
  return {(is_largest && rank.reshape(dims) == 1).choose(s.g, s.zero())};
}

const OpDef kGlobalMaxPool{.kind = OpKind::GlobalMaxPool,
                           .name = "GlobalMaxPool",
                           .onnx = {"GlobalMaxPool"},
                           .infer = infer_global_pool,
                           .gradient = gradient_of_global_max_pool,
                           .decompose = decompose_global_pool<OpKind::ReduceMax>};

}  // namespace weftc
