// Rules for views of views, and for gathers that are views. The type of a view's result tells lengths known at run time
// too: a rule fires where the result keeps them.
#include <algorithm>
#include <numeric>

#include "ir/base/contains.h"
#include "passes/simplify/rules.h"

namespace weftc {

namespace {

/// Ops that give the same elements, in the same order, another shape.
const std::vector<OpKind> kReshapes{OpKind::Reshape, OpKind::Flatten, OpKind::Squeeze, OpKind::Unsqueeze};

ValueId put_x(Rewriter&, const Match& match) { return match["x"]; }
bool keeps_type(const Match& match) { return match.root_type() == match.type("x"); }

bool permutes_nothing(const Match& match) {
  const std::vector<int64_t>& perm = match.root().ints("perm");
  std::vector<int64_t> identity(perm.size());
  std::iota(identity.begin(), identity.end(), 0);
  return perm == identity;
}

ValueId put_composed(Rewriter& write, const Match& match) {
  std::vector<int64_t> perm;
  for (int64_t d : match.root().ints("perm")) perm.push_back(match.op("inner").ints("perm")[static_cast<size_t>(d)]);
  return write.op(OpKind::Transpose, {match["x"]}, {{"perm", perm}});
}

Attrs reshape_attrs(const Match& match) { return {{"allowzero", int64_t{1}}, {"shape", match.root_type().dims()}}; }

/// A run-time length that the first reshape moved may have no place in the direct one.
bool reshapes_at_once(const Match& match) {
  Op reshape = match.root();
  reshape.kind = OpKind::Reshape;
  reshape.inputs = {match["x"]};
  reshape.attrs = reshape_attrs(match);
  return match.fits_root(reshape);
}

ValueId put_reshape(Rewriter& write, const Match& match) {
  return write.reshape_to(match["x"], match.root_type().shape);
}

bool is_line(const Shape& shape) {
  return std::count_if(shape.begin(), shape.end(), [](const Extent& e) { return !(e == Extent{1}); }) <= 1;
}

bool all_are(const std::vector<int64_t>& numbers, int64_t number) {
  return std::all_of(numbers.begin(), numbers.end(), [&](int64_t each) { return each == number; });
}

/// True if an op gives 0, 1, 2, ... in order: an Iota, or the first elements of such a constant.
bool counts_up(const Match& match, const Op& op) {
  if (op.kind == OpKind::Iota) return op.real("start") == 0 && op.real("step") == 1;
  if (op.kind != OpKind::Slice || !match.is_constant(op.inputs[0])) return false;
  if (!is_line(match.graph().type(op.inputs[0]).shape) || !op.has("starts") || !all_are(op.ints("starts"), 0) ||
      !all_are(op.ints("steps"), 1))
    return false;
  const Tensor all = match.tensor(op.inputs[0]);
  for (int64_t i = 0; i < all.size(); ++i)
    if (all.int_at(i) != i) return false;
  return true;
}

/// How many positions 0, 1, 2, ... a value holds; nothing where it may hold others.
std::optional<Extent> positions_in(const Match& match, ValueId value) {
  const Op* op = &match.graph().producer_op(value);
  while (contains(kReshapes, op->kind) && is_line(match.graph().type(value).shape)) {
    value = op->inputs[0];
    op = &match.graph().producer_op(value);
  }
  const Shape& shape = match.graph().type(value).shape;
  if (shape.empty() || !is_line(shape) || !counts_up(match, *op)) return {};
  const auto counted = std::find_if(shape.begin(), shape.end(), [](const Extent& e) { return !(e == Extent{1}); });
  return counted == shape.end() ? Extent{1} : *counted;
}

const Extent& gathered_extent(const Match& match) {
  return match.type("x").shape[static_cast<size_t>(match.root().integer("axis"))];
}

bool gathers_first(const Match& match) {
  const std::optional<Extent> count = positions_in(match, match["at"]);
  return count && !gathered_extent(match).is_run_time() && count->bound <= gathered_extent(match).bound;
}

ValueId put_first(Rewriter& write, const Match& match) {
  Shape shape = match.type("x").shape;
  shape[static_cast<size_t>(match.root().integer("axis"))] = *positions_in(match, match["at"]);
  const Shape gathered = match.root_type().shape;  // by value: values move while ops are added
  return write.reshape_to(write.first_of(match["x"], shape), gathered);
}

}  // namespace

std::span<const Rule> view_rules() {
  static const std::vector<Rule> rules{
      // Transpose(x) with perm 0, 1, 2  ->  x
      {"identity-transpose", op(OpKind::Transpose, {any("x")}), permutes_nothing, put_x},
      // Transpose(Transpose(x, p), q)  ->  Transpose(x, p[q])
      {"transpose-of-transpose", op(OpKind::Transpose, {op(OpKind::Transpose, {any("x")}).as("inner")}), nullptr,
       put_composed},
      // Reshape(x) to its own shape  ->  x
      {"identity-reshape", op(kReshapes, {any("x")}), keeps_type, put_x},
      // Expand(x) to its own shape  ->  x
      {"identity-expand", op(OpKind::Expand, {any("x")}), keeps_type, put_x},
      // Reshape(Reshape(x))  ->  Reshape(x)
      {"reshape-of-reshape", op(kReshapes, {op(kReshapes, {any("x")})}), reshapes_at_once, put_reshape},
      // Gather(x, 0 1 2 ... n-1)  ->  Slice(x, 0 to n), which kernels read in place
      {"gather-of-positions", op(OpKind::Gather, {any("x"), any("at")}), gathers_first, put_first},
  };
  return rules;
}

}  // namespace weftc
