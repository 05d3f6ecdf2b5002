// Elements that need a loop of their own: reductions, sums of products, windows, running sums, sums over peers.
// All follow one pattern: an accumulator in the scope of the element, a loop under it, and the accumulator as
// the element:
//
//   float y_sum = float(0);
//   for (int64_t c = 0; c < 768; ++c) {
//     y_sum += x[row * 768 + c];
//   }
//   ... y_sum ...
//
// If the lanes of a row share the loop, `y_sum = weft::block_sum(y_sum);` follows.
#include <algorithm>

#include "backend/element.h"
#include "ir/kernel/window_geometry.h"
#include "ir/op_def.h"
#include "ir/ops/window.h"

namespace weftc {

static ReduceOp reduce_of(OpKind kind) {
  switch (kind) {
    case OpKind::ReduceMax:
      return ReduceOp::Max;
    case OpKind::ReduceMin:
      return ReduceOp::Min;
    case OpKind::ReduceProd:
      return ReduceOp::Prod;
    default:
      return ReduceOp::Sum;
  }
}

// The initial value of an accumulator: the identity of the reduction.
static Expr identity_of(ReduceOp reduce, DType dtype) {
  if (reduce == ReduceOp::Sum) return literal(std::string(compute_type(dtype)) + "(0)");
  if (reduce == ReduceOp::Prod) return literal(std::string(compute_type(dtype)) + "(1)");
  const std::string limits = "std::numeric_limits<" + std::string(compute_type(dtype)) + ">::";
  if (is_float(dtype)) return literal((reduce == ReduceOp::Max ? "-" : "") + limits + "infinity()");
  return literal(limits + (reduce == ReduceOp::Max ? "lowest()" : "max()"));
}

/// Allows the compiler to compute several iterations at once, with a partial result for each vector lane. Extremes of
/// integers are excluded: the runtime declares OpenMP reductions for extremes of floats only (weft/kernel.h).
static For vector_reduction(ReduceOp reduce, const std::string& sum, DType dtype) {
  const bool is_extreme = reduce == ReduceOp::Max || reduce == ReduceOp::Min;
  if (is_extreme && !is_float(dtype)) return {};
  return For{.kind = LoopKind::Vector, .accumulator = For::Accumulator{reduce, sum}};
}

/// The operand's index with the kept dimensions filled in from the result's.
static IndexList kept_index(const IndexList& index, size_t ndim, const std::vector<int64_t>& axes, bool keepdims) {
  IndexList at(ndim);
  for (size_t d = 0, k = 0; d < ndim; ++d) {
    const bool reduced = std::find(axes.begin(), axes.end(), static_cast<int64_t>(d)) != axes.end();
    if (!reduced) at[d] = index[k];
    k += !reduced || keepdims;
  }
  return at;
}

Element Elements::reduction(ValueId value, const Op& op, const IndexList& index) {
  const ValueId from = op.inputs[0];
  const TensorType& type = body_.type(from);
  const std::vector<int64_t>& axes = op.ints("axes");
  const ReduceOp reduce = reduce_of(op.kind);
  IndexList at = kept_index(index, type.shape.size(), axes, op.integer("keepdims") != 0);
  if (axes.empty()) return this->at(from, at);
  Scope* home = scopes.home(at);
  const std::string sum =
      scopes.names.unique(std::string(last_component(body_.value(value).name)) + "_" + reduce_name(reduce));
  home->put(Let{compute_type(type.dtype), sum, identity_of(reduce, type.dtype), true});
  const For like = scopes.rows_together ? For{} : vector_reduction(reduce, sum, type.dtype);
  Inner inner = open_dims(home, type, axes, like);
  for (int64_t d : axes) at[d] = inner.at[d];
  const Element element = this->at(from, at);
  scopes.current->put(Reduce{reduce, name(sum), element.expr});
  if (const auto& keeping = scopes.current->keeping) scopes.current->put(scopes.ends[keeping->number]);
  close(inner);
  if (inner.shared()) home->put(Store{name(sum), call(lanes_function(reduce_name(reduce)), {name(sum)})});
  bind(value, index, name(sum), home);
  return {name(sum), home};
}

std::string Elements::lanes_function(const std::string& reduction) const {
  return (scopes.lanes == Lanes::Warp ? "weft::warp_" : "weft::block_") + reduction;
}

// ArgMax and ArgMin have two accumulators, the best value and its position. ONNX takes the first of equals unless
// select_last_index is set.
Element Elements::arg_reduction(ValueId value, const Op& op, const IndexList& index) {
  const ValueId from = op.inputs[0];
  const TensorType& type = body_.type(from);
  const std::vector<int64_t> axes = {op.integer("axis")};
  const bool largest = op.kind == OpKind::ArgMax, last = op.integer_or("select_last_index", 0) != 0;
  IndexList at = kept_index(index, type.shape.size(), axes, op.integer("keepdims") != 0);
  Scope* home = scopes.home(at);
  const std::string local(last_component(body_.value(value).name));
  const Expr best = name(scopes.names.unique(local + "_best")), where = name(scopes.names.unique(local + "_at"));
  const Expr identity = identity_of(largest ? ReduceOp::Max : ReduceOp::Min, type.dtype);
  home->put(Let{compute_type(type.dtype), best.node().text, identity, true});
  home->put(Let{"int64_t", where.node().text, 0, true});
  Inner inner = open_dims(home, type, axes, {});
  at[axes[0]] = inner.at[axes[0]];
  Element element = this->at(from, at);
  if (!element.expr.is_simple()) element = named(from, element);
  const std::string better = std::string(largest ? ">" : "<") + (last ? "=" : "");
  scopes.current->put(
      If{binary(element.expr, better, best), {Store{best, element.expr}, Store{where, inner.at[axes[0]]}}});
  close(inner);
  if (inner.shared()) {
    const std::string order = std::string(largest ? "true" : "false") + (last ? ", true" : ", false");
    home->put(Call{call(lanes_function("best") + "<" + order + ">", {best, where})});
  }
  bind(value, index, where, home);
  return {where, home};
}

/// An element of the first operand of a sum of products minus its zero point (MatMulInteger, ConvInteger).
static Expr without_zero(const Op& op, const Expr& element) {
  const int64_t zero = op.integer_or("zero", 0);
  return zero ? binary(element, "-", zero) : element;
}

static bool is_convolution(const Op& op) { return op.kind == OpKind::Conv || op.kind == OpKind::ConvInteger; }

// MatMul with broadcast leading dimensions, one sum at a time. kernel_contraction.cpp has faster ways for large
// products; this one works for any index, inside any other op's kernel.
Element Elements::product(ValueId value, const Op& op, const IndexList& index) {
  const TensorType &a = body_.type(op.inputs[0]), &b = body_.type(op.inputs[1]);
  const Dims a_dims = context_.dims(op.inputs[0]), b_dims = context_.dims(op.inputs[1]);
  const size_t nd = index.size(), na = a_dims.size(), nb = b_dims.size();
  IndexList a_at(na), b_at(nb);
  for (size_t d = 0; d + 2 < na; ++d) a_at[d] = a_dims[d] == 1 ? IndexExpr(0) : index[nd - na + d];
  for (size_t d = 0; d + 2 < nb; ++d) b_at[d] = b_dims[d] == 1 ? IndexExpr(0) : index[nd - nb + d];
  a_at[na - 2] = index[nd - 2], b_at[nb - 1] = index[nd - 1];
  Scope* home = scopes.home(index);
  const DType dtype = body_.type(value).dtype;
  const std::string sum = scopes.names.unique(std::string(last_component(body_.value(value).name)) + "_sum");
  home->put(Let{compute_type(dtype), sum, 0, true});
  Expr bound = run_bound(context_, a, na - 1);
  Scale below = run_scale(context_, a, na - 1);
  if (bound.empty()) bound = run_bound(context_, b, nb - 2), below = run_scale(context_, b, nb - 2);
  const LoopAxis axis = scopes.fresh_axis("k", a_dims[na - 1], bound, home, below);
  LoopScopes::Open k = scopes.open(home, axis, is_float(dtype) ? vector_reduction(ReduceOp::Sum, sum, dtype) : For{});
  a_at[na - 1] = b_at[nb - 2] = k.index;
  const Element left = at(op.inputs[0], a_at), right = at(op.inputs[1], b_at);
  scopes.current->put(Reduce{ReduceOp::Sum, name(sum), binary(without_zero(op, left.expr), "*", right.expr)});
  scopes.close(k);
  bind(value, index, name(sum), home);
  return {name(sum), home};
}

// The same for a weight of few bits in words, one number at a time.
Element Elements::block_product(ValueId value, const Op& op, const IndexList& index) {
  const TensorType& a = body_.type(op.inputs[0]);
  const Dims a_dims = context_.dims(op.inputs[0]);
  const int64_t bits = op.integer("bits"), each = 32 / bits;
  Scope* home = scopes.home(index);
  const std::string sum = scopes.names.unique(std::string(last_component(body_.value(value).name)) + "_sum");
  home->put(Let{compute_type(body_.type(value).dtype), sum, 0, true});
  const size_t blocks = a_dims.size() - 2;
  LoopScopes::Open block = scopes.open(home, scopes.fresh_axis("block", a_dims[blocks], run_bound(context_, a, blocks),
                                                               home, run_scale(context_, a, blocks)));
  LoopScopes::Open place = scopes.open(&block.inner(), scopes.fresh_axis("place", a_dims.back(), {}, &block.inner()));
  IndexList at_a(index.begin(), index.end() - 1);
  at_a.push_back(block.index), at_a.push_back(place.index);
  const Element left = at(op.inputs[0], at_a);
  const Element word = at(op.inputs[1], {index.back(), block.index, quotient(place.index, each)});
  const auto term = [&](int64_t which) { return at(op.inputs[2], {index.back(), block.index, which}).expr; };
  const Expr number = pattern("float($0 >> $1 & " + std::to_string((int64_t{1} << bits) - 1) + ")",
                              {word.expr, digit(place.index, 1, each) * bits}, Binding::Primary);
  scopes.current->put(
      Reduce{ReduceOp::Sum, name(sum), binary(left.expr, "*", binary(binary(number, "-", term(1)), "*", term(0)))});
  scopes.close(place);
  scopes.close(block);
  bind(value, index, name(sum), home);
  return {name(sum), home};
}

// Convolution and pooling share windows; a convolution also has filters and channels.
namespace {
/// The geometry of a window in the spatial dimensions.
struct TapWindow {
  std::vector<int64_t> kernel, strides, dilations;
  IndexDims before;
  std::vector<int64_t> after;  // empty: zeros
};
TapWindow window_of(const KernelContext& context, const Op& op, const Dims& kernel) {
  TapWindow w;
  const size_t n = kernel.size();
  w.kernel = kernel;
  const auto ints = [&](const char* name, size_t count, int64_t otherwise) {
    return op.has(name) && !op.ints(name).empty() ? op.ints(name) : std::vector<int64_t>(count, otherwise);
  };
  w.strides = ints("strides", n, 1);
  w.dilations = ints("dilations", n, 1);
  w.before = padding_before(context, op);
  if (const std::vector<int64_t> pads = ints_of(op, "pads"); !pads.empty())
    w.after.assign(pads.begin() + static_cast<long>(n), pads.end());
  return w;
}
}  // namespace

// The operand's position of a tap is index * stride + tap * dilation - padding; outside the operand it is
// clamped and excluded by a condition.
Elements::WindowLoops Elements::open_window(ValueId value, const Op& op, const IndexList& index, Scope* home) {
  const bool conv = is_convolution(op);
  const Dims x_dims = context_.dims(op.inputs[0]), w_dims = conv ? context_.dims(op.inputs[1]) : Dims{};
  const IndexDims extents = context_.extents(op.inputs[0]);
  const Dims kernel = conv ? Dims(w_dims.begin() + 2, w_dims.end()) : op.ints("kernel_shape");
  const TapWindow w = window_of(context_, op, kernel);
  WindowLoops window{.loops = {}, .x = index, .w = {index[1]}};
  const auto loop = [&](int64_t extent, const Expr& bound = {}) {
    Scope* under = window.loops.empty() ? home : &window.loops.back().inner();
    window.loops.push_back(scopes.open(under, scopes.fresh_axis("tap", extent, bound, under)));
    return window.loops.back().index;
  };
  if (conv) {
    // Without channels there is one group, whose sums are zero.
    const int64_t groups = w_dims[1] ? x_dims[1] / w_dims[1] : 1, out = context_.dims(value)[1] / groups;
    window.w.push_back(loop(w_dims[1], run_bound(context_, body_.type(op.inputs[1]), 1)));
    window.x[1] = (groups == 1 ? IndexExpr(0) : quotient(index[1], out) * w_dims[1]) + window.w[1];
  }
  for (size_t d = 0; d < kernel.size(); ++d) {
    const IndexExpr tap = loop(kernel[d]);
    window.w.push_back(tap);
    const IndexExpr position = index[2 + d] * w.strides[d] + tap * w.dilations[d] - IndexExpr::of(w.before[d]);
    context_.need_lengths(position);
    window.x[2 + d] = clamped(position, extents[2 + d], window.inside);
    if (pads_by_length(op)) continue;
    const IndexExpr end = IndexExpr::of(extents[2 + d]) + (w.after.empty() ? 0 : w.after[d]);
    context_.need_lengths(end);
    if ((end - position).low() <= 0) window.padded.push_back(binary(position, "<", end));
  }
  return window;
}

// AveragePool divides by the number of taps in the operand; with count_include_pad also by those in the padding (ONNX
// AveragePool-19).
Element Elements::window(ValueId value, const Op& op, const IndexList& index) {
  const bool conv = is_convolution(op), largest = op.kind == OpKind::MaxPool;
  if (!conv && !largest && op.kind != OpKind::AveragePool)
    return fail("kernel-op-unsupported", op, std::string(op_def(op).name) + " has no lowering inside a kernel");
  if (body_.value(value).result) return fail("maxpool-indices-unsupported", op, "the indices of MaxPool");
  const DType dtype = body_.type(value).dtype;
  const ReduceOp reduce = largest ? ReduceOp::Max : ReduceOp::Sum;
  Scope* home = scopes.home(index);
  const std::string local(last_component(body_.value(value).name));
  const Expr sum = name(scopes.names.unique(local + "_" + reduce_name(reduce)));
  home->put(Let{compute_type(dtype), sum.node().text, identity_of(reduce, dtype), true});
  const bool count = !conv && !largest;
  const Expr taps = count ? name(scopes.names.unique(local + "_taps")) : Expr();
  if (count) home->put(Let{"int64_t", taps.node().text, 0, true});
  WindowLoops window = open_window(value, op, index, home);
  const auto put = [&](const std::vector<Expr>& conditions, Reduce update) {
    scopes.current->put(conditions.empty() ? Statement(update) : Statement(If{all_of(conditions), {update}}));
  };
  if (count) put(op.integer_or("count_include_pad", 0) ? window.padded : window.inside, {ReduceOp::Sum, taps, 1});
  Element element = at(op.inputs[0], window.x);
  if (conv) element.expr = binary(without_zero(op, element.expr), "*", at(op.inputs[1], window.w).expr);
  if (largest && !element.expr.is_simple()) element = named(op.inputs[0], element);
  put(window.inside, {reduce, sum, element.expr});
  for (auto loop = window.loops.rbegin(); loop != window.loops.rend(); ++loop) scopes.close(*loop);
  Element result{sum, home};
  if (count) result = named(value, {binary(sum, "/", call(compute_type(dtype), {taps})), home});
  bind(value, index, result.expr, home);
  return result;
}

// CumSum or CumProd of a single element: combines all that precede it. Kernels whose root is a scan read each element
// once instead (kernel_scan.cpp).
Element Elements::scan(ValueId value, const Op& op, const IndexList& index) {
  const int axis = static_cast<int>(op.integer("axis"));
  const TensorType& type = body_.type(op.inputs[0]);
  const bool exclusive = op.integer_or("exclusive", 0) != 0, reverse = op.integer_or("reverse", 0) != 0;
  const int64_t extent = context_.dims(op.inputs[0])[axis];
  Scope* home = scopes.home(index);
  const std::string sum = scopes.names.unique(std::string(last_component(body_.value(value).name)) + "_sum");
  const bool product = op.kind == OpKind::CumProd;
  home->put(Let{compute_type(type.dtype), sum, product ? 1 : 0, true});
  // The number of elements up to this one, or from it to the end.
  Expr length = run_bound(context_, type, static_cast<size_t>(axis));
  if (length.empty()) length = extent;
  const Expr here = index[axis];
  Expr count = reverse ? binary(length, "-", here) : here;
  if (reverse && exclusive) count = binary(count, "-", 1);
  if (!reverse && !exclusive) count = binary(count, "+", 1);
  LoopScopes::Open k = scopes.open(home, scopes.fresh_axis("k", extent, count, home));
  IndexList at = index;
  at[axis] = reverse ? index[axis] + k.index + (exclusive ? 1 : 0) : k.index;
  scopes.current->put(Reduce{product ? ReduceOp::Prod : ReduceOp::Sum, name(sum), this->at(op.inputs[0], at).expr});
  scopes.close(k);
  bind(value, index, name(sum), home);
  return {name(sum), home};
}

/// The reduction over the peers' parts. Every rank adds them in the order of their indices in the group, so that all
/// results have the same bits.
Element Elements::from_peers(const Op& op, const IndexList& index) {
  context_.need({Argument::Kind::Peers});
  const ReduceOp reduce = parse_reduce(op.text("reduce")).value_or(ReduceOp::Sum);
  int64_t ranks = 1;
  for (int64_t axis : op.ints("axes")) ranks *= context_.kernel.mesh[axis].size;
  Expr result;
  for (int64_t p = 0; p < ranks; ++p) {
    peer = std::to_string(p);
    const Expr element = at(op.inputs[0], index).expr;
    if (p == 0)
      result = element;
    else if (reduce == ReduceOp::Sum || reduce == ReduceOp::Prod)
      result = binary(result, reduce == ReduceOp::Sum ? "+" : "*", element);
    else
      result = call(reduce == ReduceOp::Max ? "weft::maximum" : "weft::minimum", {result, element});
  }
  peer.clear();
  return {result, scopes.current};
}

// Collectives inside a kernel: the rank reads its peers' windows itself. ReduceScatter and ShardSlice take this rank's
// slice, so the operand's index covers the whole dimension.
Element Elements::collective(ValueId value, const Op& op, const IndexList& index) {
  const TensorType& type = body_.type(value);
  const std::vector<int64_t>& axes = op.ints("axes");
  const auto whole = [&](int axis) { return std::find(axes.begin(), axes.end(), axis) != axes.end(); };
  IndexList at = index;
  if (op.kind == OpKind::ReduceScatter || op.kind == OpKind::ShardSlice)
    for (int d = 0; d < type.ndim(); ++d)
      at[d] = with_digits(index[d], context_.digits(type, d), whole, context_.coordinates());
  if (op.kind == OpKind::ShardSlice) return this->at(op.inputs[0], at);
  if (op.kind != OpKind::ReduceScatter && op.kind != OpKind::AllReduce)
    return fail("kernel-collective-unsupported", op, std::string(op_def(op).name) + " inside a kernel");
  const Element result = named(value, from_peers(op, at));
  bind(value, index, result.expr, result.scope);
  return result;
}

}  // namespace weftc
