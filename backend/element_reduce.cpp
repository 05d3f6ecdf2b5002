// Elements that need a loop of their own: reductions, sums of products, windows, running sums, sums over peers.
#include <algorithm>

#include "backend/element.h"
#include "ir/op_def.h"

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

static std::string identity_text(ReduceOp reduce, DType dtype) {
  if (reduce == ReduceOp::Sum) return std::string(compute_type(dtype)) + "(0)";
  if (reduce == ReduceOp::Prod) return std::string(compute_type(dtype)) + "(1)";
  const std::string limits = "std::numeric_limits<" + std::string(compute_type(dtype)) + ">::";
  if (is_float(dtype)) return (reduce == ReduceOp::Max ? "-" : "") + limits + "infinity()";
  return limits + (reduce == ReduceOp::Max ? "lowest()" : "max()");
}

static std::string update_text(ReduceOp reduce, const std::string& sum, const std::string& element) {
  switch (reduce) {
    case ReduceOp::Sum:
      return sum + " += " + element + ";";
    case ReduceOp::Prod:
      return sum + " *= " + element + ";";
    case ReduceOp::Max:
      return sum + " = weft::maximum(" + sum + ", " + element + ");";
    case ReduceOp::Min:
      return sum + " = weft::minimum(" + sum + ", " + element + ");";
  }
  return "";
}

/// The loop's iterations may be taken together: lanes keep their own partial results.
static std::string simd_reduction(ReduceOp reduce, const std::string& sum, DType dtype) {
  switch (reduce) {
    case ReduceOp::Sum:
      return "#pragma omp simd reduction(+ : " + sum + ")";
    case ReduceOp::Prod:
      return "#pragma omp simd reduction(* : " + sum + ")";
    case ReduceOp::Max:
      return is_float(dtype) ? "#pragma omp simd reduction(weft_maximum : " + sum + ")" : "";
    case ReduceOp::Min:
      return is_float(dtype) ? "#pragma omp simd reduction(weft_minimum : " + sum + ")" : "";
  }
  return "";
}

/// Indices of the operand with those of the kept dimensions filled in.
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
  home->put(std::string(compute_type(type.dtype)) + " " + sum + " = " + identity_text(reduce, type.dtype) + ";");
  Inner inner = open_dims(home, type, axes, simd_reduction(reduce, sum, type.dtype));
  for (int64_t d : axes) at[d] = inner.at[d];
  const Element element = this->at(from, at);
  scopes.current->put(update_text(reduce, sum, element.text));
  close(inner);
  if (inner.shared()) home->put(sum + " = " + lanes_function(reduce_name(reduce)) + "(" + sum + ");");
  bind(value, index, sum, home);
  return {sum, home};
}

std::string Elements::lanes_function(const std::string& reduction) const {
  return (scopes.lanes == Lanes::Warp ? "weft::warp_" : "weft::block_") + reduction;
}

Element Elements::arg_reduction(ValueId value, const Op& op, const IndexList& index) {
  const ValueId from = op.inputs[0];
  const TensorType& type = body_.type(from);
  const std::vector<int64_t> axes = {op.integer("axis")};
  const bool largest = op.kind == OpKind::ArgMax, last = op.integer_or("select_last_index", 0) != 0;
  IndexList at = kept_index(index, type.shape.size(), axes, op.integer("keepdims") != 0);
  Scope* home = scopes.home(at);
  const std::string name(last_component(body_.value(value).name));
  const std::string best = scopes.names.unique(name + "_best"), where = scopes.names.unique(name + "_at");
  home->put(std::string(compute_type(type.dtype)) + " " + best + " = " +
            identity_text(largest ? ReduceOp::Max : ReduceOp::Min, type.dtype) + ";");
  home->put("int64_t " + where + " = 0;");
  Inner inner = open_dims(home, type, axes, "");
  at[axes[0]] = inner.at[axes[0]];
  Element element = this->at(from, at);
  if (element.text.find('[') != std::string::npos) element = named(from, element);
  const std::string better = std::string(largest ? " >" : " <") + (last ? "= " : " ");
  scopes.current->put("if (" + element.text + better + best + ") " + best + " = " + element.text + ", " + where +
                      " = " + scopes.text(inner.at[axes[0]]) + ";");
  close(inner);
  if (inner.shared())
    home->put(lanes_function("best") + "<" + (largest ? "true" : "false") + ", " + (last ? "true" : "false") + ">(" +
              best + ", " + where + ");");
  bind(value, index, where, home);
  return {where, home};
}

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
  home->put(std::string(compute_type(dtype)) + " " + sum + " = 0;");
  std::string bound = context_.run_extent(a, static_cast<int>(na) - 1);
  if (bound.empty()) bound = context_.run_extent(b, static_cast<int>(nb) - 2);
  const LoopAxis axis = scopes.fresh_axis("k", a_dims[na - 1], bound, home);
  LoopScopes::Open k = scopes.open(home, axis, is_float(dtype) ? simd_reduction(ReduceOp::Sum, sum, dtype) : "");
  a_at[na - 1] = b_at[nb - 2] = k.index;
  const Element left = at(op.inputs[0], a_at), right = at(op.inputs[1], b_at);
  scopes.current->put(sum + " += " + left.text + " * " + right.text + ";");
  scopes.close(k);
  bind(value, index, sum, home);
  return {sum, home};
}

namespace {
/// The geometry of a window in the spatial dimensions.
struct Window {
  std::vector<int64_t> kernel, strides, dilations, pads;  // pads: all befores, then all behinds
};
Window window_of(const Op& op, const Dims& kernel) {
  Window w;
  const size_t n = kernel.size();
  w.kernel = kernel;
  const auto ints = [&](const char* name, size_t count, int64_t otherwise) {
    return op.has(name) && !op.ints(name).empty() ? op.ints(name) : std::vector<int64_t>(count, otherwise);
  };
  w.strides = ints("strides", n, 1);
  w.dilations = ints("dilations", n, 1);
  w.pads = ints("pads", 2 * n, 0);
  return w;
}
}  // namespace

Element Elements::window(ValueId value, const Op& op, const IndexList& index) {
  const bool conv = op.kind == OpKind::Conv, largest = op.kind == OpKind::MaxPool;
  if (!conv && !largest && op.kind != OpKind::AveragePool)
    return fail("kernel-op-unsupported", op, std::string(op_def(op).name) + " has no lowering inside a kernel");
  if (body_.value(value).result) return fail("maxpool-indices-unsupported", op, "the indices of MaxPool");
  const ValueId x = op.inputs[0];
  const Dims x_dims = context_.dims(x), w_dims = conv ? context_.dims(op.inputs[1]) : Dims{};
  const Dims kernel = conv ? Dims(w_dims.begin() + 2, w_dims.end()) : op.ints("kernel_shape");
  const Window w = window_of(op, kernel);
  const size_t spatial = kernel.size();
  const DType dtype = body_.type(value).dtype;
  const ReduceOp reduce = largest ? ReduceOp::Max : ReduceOp::Sum;
  Scope* home = scopes.home(index);
  const std::string name(last_component(body_.value(value).name));
  const std::string sum = scopes.names.unique(name + "_" + reduce_name(reduce));
  home->put(std::string(compute_type(dtype)) + " " + sum + " = " + identity_text(reduce, dtype) + ";");
  const bool count = !conv && !largest;
  const std::string taps = count ? scopes.names.unique(name + "_taps") : "";
  if (count) home->put("int64_t " + taps + " = 0;");
  IndexList x_at = index, w_at = {index[1]};
  std::vector<LoopScopes::Open> loops;
  const auto loop = [&](int64_t extent) {
    Scope* under = loops.empty() ? home : &loops.back().inner();
    loops.push_back(scopes.open(under, scopes.fresh_axis("tap", extent, "", under)));
    return loops.back().index;
  };
  if (conv) {
    const int64_t groups = x_dims[1] / w_dims[1], out = context_.dims(value)[1] / groups;
    w_at.push_back(loop(w_dims[1]));
    x_at[1] = (groups == 1 ? IndexExpr(0) : quotient(index[1], out) * w_dims[1]) + w_at[1];
  }
  std::string inside, counted;
  for (size_t d = 0; d < spatial; ++d) {
    const IndexExpr tap = loop(kernel[d]);
    w_at.push_back(tap);
    const IndexExpr place = index[2 + d] * w.strides[d] + tap * w.dilations[d] - w.pads[d];
    x_at[2 + d] = clamped(place, x_dims[2 + d], inside);
    if (place.high() >= x_dims[2 + d] + w.pads[spatial + d])
      counted += (counted.empty() ? "" : " && ") + std::string("(") + scopes.text(place) + ") < " +
                 std::to_string(x_dims[2 + d] + w.pads[spatial + d]);
  }
  const bool with_pads = count && op.integer_or("count_include_pad", 0);
  const std::string when = with_pads ? counted : inside;
  if (count) scopes.current->put((when.empty() ? "++" : "if (" + when + ") ++") + taps + ";");
  Element element = at(x, x_at);
  if (conv) element.text += " * " + at(op.inputs[1], w_at).text;
  if (largest && element.text.find('[') != std::string::npos) element = named(x, element);
  scopes.current->put((inside.empty() ? "" : "if (" + inside + ") ") + update_text(reduce, sum, element.text));
  for (auto l = loops.rbegin(); l != loops.rend(); ++l) scopes.close(*l);
  Element result{sum, home};
  if (count) result = named(value, {sum + " / " + compute_type(dtype) + "(" + taps + ")", home});
  bind(value, index, result.text, home);
  return result;
}

Element Elements::scan(ValueId value, const Op& op, const IndexList& index) {
  const int axis = static_cast<int>(op.integer("axis"));
  const TensorType& type = body_.type(op.inputs[0]);
  const bool exclusive = op.integer_or("exclusive", 0) != 0, reverse = op.integer_or("reverse", 0) != 0;
  const int64_t extent = context_.dims(op.inputs[0])[axis];
  Scope* home = scopes.home(index);
  const std::string sum = scopes.names.unique(std::string(last_component(body_.value(value).name)) + "_sum");
  home->put(std::string(compute_type(type.dtype)) + " " + sum + " = 0;");
  // The elements before this one, or behind it.
  std::string length = context_.run_extent(type, axis);
  if (length.empty()) length = std::to_string(extent);
  const std::string here = scopes.text(index[axis]);
  const std::string count =
      reverse ? length + " - (" + here + ")" + (exclusive ? " - 1" : "") : here + (exclusive ? "" : " + 1");
  LoopScopes::Open k = scopes.open(home, scopes.fresh_axis("k", extent, count, home));
  IndexList at = index;
  at[axis] = reverse ? index[axis] + k.index + (exclusive ? 1 : 0) : k.index;
  scopes.current->put(sum + " += " + this->at(op.inputs[0], at).text + ";");
  scopes.close(k);
  bind(value, index, sum, home);
  return {sum, home};
}

/// The reduction over the peers' parts, in their order: the same bits on every rank.
Element Elements::from_peers(const Op& op, const IndexList& index) {
  context_.need({Argument::Kind::Peers});
  const ReduceOp reduce = parse_reduce(op.text("reduce")).value_or(ReduceOp::Sum);
  int64_t ranks = 1;
  for (int64_t axis : op.ints("axes")) ranks *= context_.kernel.mesh[axis].size;
  std::string text;
  Scope* scope = scopes.current;
  for (int64_t p = 0; p < ranks; ++p) {
    peer = std::to_string(p);
    const std::string element = at(op.inputs[0], index).text;
    if (p == 0)
      text = element;
    else if (reduce == ReduceOp::Sum || reduce == ReduceOp::Prod)
      text += (reduce == ReduceOp::Sum ? " + " : " * ") + element;
    else
      text = std::string(reduce == ReduceOp::Max ? "weft::maximum(" : "weft::minimum(") + text + ", " + element + ")";
  }
  peer.clear();
  return {text, scope};
}

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
  bind(value, index, result.text, result.scope);
  return result;
}

}  // namespace weftc
