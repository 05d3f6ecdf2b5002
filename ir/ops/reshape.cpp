// Reshape, and the handling of run-time lengths when a tensor takes another shape. Memory of such lengths is dense, so
// a shape may join and split them freely if both shapes have the same number of elements for all lengths.
//
//   Reshape(x f32[2, 6], [0, 3, -1])               ->  f32[2, 3, 2]: 0 copies the extent, -1 is the remaining extent
//   Reshape(x f32[batch, seq, 64], [-1, 64])       ->  f32[batch * seq, 64]
//   Reshape(x f32[n, 3], [-1, 12])                 ->  f32[n / 4, 12], for requests whose n is a multiple of 4
#include <algorithm>

#include "ir/base/check.h"
#include "ir/ops/gradient.h"
#include "ir/ops/selection.h"
#include "ir/ops/view.h"

namespace weftc {

namespace {

/// Finds lengths for dimensions with known bounds only, so that they have as many elements as the operand's dimensions.
/// Each is a number times some of the operand's lengths, and each of these lengths goes into one dimension.
class LengthAssignment {
 public:
  LengthAssignment(const Shape& from, const Dims& to) : to_(to) {
    for (const Extent& extent : from) {
      const Length length = length_of(extent);
      if (length.is_constant())
        left_ *= length.constant();
      else
        units_.push_back({length, extent.bound});
    }
    split_products();
    taken_.resize(units_.size());
    find(0, 1);
  }

  /// All assignments found; if there are several, the one that keeps the operand's order is first.
  const std::vector<std::vector<Length>>& found() const { return found_; }

 private:
  struct Unit {
    Length length;
    int64_t bound;
  };

  /// Splits products of lengths into their factors.
  void split_products() {
    for (size_t u = 0; u < units_.size(); ++u) {
      const std::vector<Length::Term>& terms = units_[u].length.terms();
      if (terms.size() != 1 || (terms[0].factors.size() == 1 && terms[0].coefficient == 1)) continue;
      left_ *= terms[0].coefficient;
      std::vector<Unit> factors;
      for (const LengthSymbolPtr& factor : terms[0].factors) factors.push_back({Length(factor), factor->high});
      units_.erase(units_.begin() + static_cast<long>(u));
      units_.insert(units_.begin() + static_cast<long>(u), factors.begin(), factors.end());
      u += factors.size() - 1;
    }
  }

  /// Assigns lengths to dimension `d` and later ones; `numbers` is the product of the numbers assigned so far.
  void find(size_t d, int64_t numbers) {
    if (d == to_.size()) {
      const bool all = std::all_of(taken_.begin(), taken_.end(), [](bool taken) { return taken; });
      if (all && numbers == left_) found_.push_back(given_);
      return;
    }
    take(d, 0, Length(1), to_[d], numbers);
  }

  /// Gives dimension `d` `length` and optionally units from number `u` on, which must make up `rest` of its bound.
  void take(size_t d, size_t u, const Length& length, int64_t rest, int64_t numbers) {
    constexpr size_t kMost = 2;  // more than one is ambiguous
    if (found_.size() >= kMost) return;
    for (size_t next = u; next < units_.size(); ++next) {
      if (taken_[next] || units_[next].bound == 0 || rest % units_[next].bound) continue;
      taken_[next] = true;
      take(d, next + 1, length * units_[next].length, rest / units_[next].bound, numbers);
      taken_[next] = false;
    }
    const int64_t all = numbers * rest;
    if (all == 0 ? left_ != 0 : left_ % all != 0) return;
    given_.push_back(length * rest);
    find(d + 1, all);
    given_.pop_back();
  }

  const Dims& to_;
  int64_t left_ = 1;  // the product of all numbers
  std::vector<Unit> units_;
  std::vector<bool> taken_;
  std::vector<Length> given_;
  std::vector<std::vector<Length>> found_;
};

/// An extent of this length: one of the operand's or a product of such, whose bounds may be tighter than the length's.
Extent extent_of(const OpView& op, const Length& length) {
  Length rest = length;
  int64_t bound = 1;
  for (const Extent& extent : op.type(0).shape) {
    if (!extent.is_run_time()) continue;
    if (length_of(extent) == length) return extent;
    const std::optional<Length> without = exact_quotient(rest, length_of(extent));
    if (without) rest = *without, bound *= extent.bound;
  }
  Extent made = op.extent(length);
  made.bound = std::min(made.bound, bound * rest.high());
  return made;
}

/// The extents of these lengths; nothing if their bounds give another number of elements than the operand's.
std::optional<Shape> shape_of_lengths(const OpView& op, const std::vector<Length>& lengths) {
  Shape shape;
  for (const Length& length : lengths) shape.push_back(extent_of(op, length));
  if (element_count(bounds(shape)) == element_count(op.dims(0))) return shape;
  op.fail("reshape-bounded-unsupported",
          "from {} to {}: the bounds of the lengths do not fit together; give others, or pin one, with --dim",
          shape_text(op.type(0).shape), text_of(lengths));
  return {};
}

/// Neighbouring dimensions of both shapes that hold the same number of elements by their bounds.
struct Group {
  Shape from;
  Dims to;
};
std::vector<Group> groups_of(const Shape& from, const Dims& to) {
  if (element_count(to) == 0 || from.empty() || to.empty()) return {{from, to}};
  std::vector<Group> groups;
  for (size_t i = 0, k = 0; i < from.size() || k < to.size();) {
    Group group;
    int64_t left = 1, right = 1;
    do {
      if (i < from.size() && (left <= right || k == to.size()))
        left *= from[i].bound, group.from.push_back(from[i++]);
      else
        right *= to[k], group.to.push_back(to[k++]);
    } while (left != right || group.from.empty() || group.to.empty());
    while (i < from.size() && from[i].bound == 1) group.from.push_back(from[i++]);
    while (k < to.size() && to[k] == 1) group.to.push_back(to[k++]);
    groups.push_back(std::move(group));
  }
  return groups;
}

/// The length, with all names whose bound is 1 set to 1.
Length without_ones(const Length& length) {
  return substitute(length, [](const LengthSymbol& name) {
    return name.high == 1 ? Length(1) : Length(std::make_shared<const LengthSymbol>(name));
  });
}

/// True if two lists of lengths differ only in the positions of lengths that are at most 1.
bool differ_by_ones(const std::vector<Length>& a, const std::vector<Length>& b) {
  return std::ranges::equal(a, b, [](const Length& x, const Length& y) { return without_ones(x) == without_ones(y); });
}

/// True if two lengths can be equal in some run, judging by their bounds.
bool may_be_equal(const Length& a, const Length& b) {
  const Length gap = b - a;
  return gap.low() <= 0 && gap.high() >= 0;
}

}  // namespace

std::optional<Shape> reshaped(const OpView& op, const Dims& dims) {
  const Shape& from = op.type(0).shape;
  const auto fail = [&](const char* id, const std::string& why) {
    op.fail(id, "the elements of shape {} cannot take shape {}{}", shape_text(from), dims_text(dims), why);
    return std::nullopt;
  };
  if (element_count(bounds(from)) != element_count(dims)) return fail("reshape-count", "");
  if (is_static(from)) return shape_of(dims);
  // A type that the result already has is more precise than its bounds.
  if (!op.op().outputs.empty()) {
    const Shape& known = op.result_type(0).shape;
    if (bounds(known) == dims && may_be_equal(element_length(from), element_length(known))) return known;
  }
  Shape shape;
  for (const Group& group : groups_of(from, dims)) {
    const std::vector<std::vector<Length>> found = LengthAssignment(group.from, group.to).found();
    if (found.empty()) return fail("reshape-count", " whatever the lengths are; pin them with --dim");
    if (found.size() > 1 && !differ_by_ones(found[0], found[1]))
      return fail("reshape-ambiguous-unsupported",
                  format(": it may be {} or {}; give the dims of the model different bounds", text_of(found[0]),
                         text_of(found[1])));
    for (size_t d = 0; d < group.to.size(); ++d) {
      shape.push_back(extent_of(op, found[0][d]));
      shape.back().bound = group.to[d];
    }
  }
  return shape;
}

/// A view that keeps the row-major order of elements.
static void copy_linear(EvalContext& context) {
  Tensor result = context.in(0);
  result.dims = context.result_dims[0];
  WEFT_CHECK(result.size() == context.in(0).size(), "view '" + context.op.name + "' changes the element count");
  context.results[0] = std::move(result);
}

/// Two products (the second has one term), without the lengths that are factors of both.
static std::pair<Length, Length> without_common_factors(Length total, Length known) {
  if (known.terms().size() == 1)
    for (const LengthSymbolPtr& factor : std::vector(known.terms()[0].factors))
      if (const std::optional<Length> less = exact_quotient(total, Length(factor)))
        total = *less, known = *exact_quotient(known, Length(factor));
  return {total, known};
}

/// The requested lengths, with 0 and -1 resolved (ONNX Reshape-21: 0 copies the extent unless allowzero, one -1 is the
/// remaining extent). Nothing if they cannot have as many elements as the operand.
static std::optional<std::vector<Length>> asked_lengths(const OpView& op, std::vector<Length> asked) {
  const Shape& from = op.type(0).shape;
  const Length total = element_length(from);
  Length known = 1;
  int open = -1;
  for (size_t d = 0; d < asked.size(); ++d) {
    if (asked[d] == -1) {
      open = static_cast<int>(d);
      continue;
    }
    if (asked[d] == 0 && !int_of(op.op(), "allowzero")) asked[d] = length_of(from[d]);
    known = known * asked[d];
  }
  if (open < 0) {
    const bool may_fit = !known.is_constant() && may_be_equal(known, total);
    return known == total || may_fit ? std::optional(asked) : std::nullopt;
  }
  const auto [all, others] = without_common_factors(total, known);
  const std::optional<Length> rest = floor_quotient(all, others);
  if (!rest || (total.is_constant() && !(known * *rest == total))) return {};
  asked[static_cast<size_t>(open)] = *rest;
  return asked;
}

/// a = b, divided by their common divisor.
static LengthRelation equal(const Length& a, const Length& b) {
  const Length& one = a.is_constant() ? b : a;
  const Length number = one.terms().size() == 1 ? one.terms()[0].coefficient : 1;
  const std::optional<Length> left = exact_quotient(a, number), right = exact_quotient(b, number);
  return left && right ? LengthRelation{"", *left, *right} : LengthRelation{"", a, b};
}

/// If the lengths of operand and result are not the same product, each request must have as many elements in both: a
/// dimension computed by rounding a quotient down must have no remainder.
static std::vector<LengthRelation> relate_reshape(const OpView& op) {
  const Shape& shape = op.result_type(0).shape;
  const Length before = element_length(op.type(0).shape), after = element_length(shape);
  if (before == after) return {};
  for (size_t open = 0; open < shape.size(); ++open) {
    Length known = 1;
    for (size_t d = 0; d < shape.size(); ++d)
      if (d != open) known = known * length_of(shape[d]);
    const auto [all, others] = without_common_factors(before, known);
    const std::optional<Length> rest = floor_quotient(all, others);
    if (rest && *rest == length_of(shape[open])) return {equal(*remainder_of(all, others), 0)};
  }
  return {equal(before, after)};
}

/// Reports a list of numbers that is not a shape for the operand.
static bool is_shape(const OpView& op, const std::vector<Length>& asked) {
  int open = 0;
  for (size_t d = 0; d < asked.size(); ++d) {
    if (asked[d] == 0 && !int_of(op.op(), "allowzero") && d >= op.type(0).shape.size())
      return op.fail("reshape-zero-dim", "0 at position {} keeps a dimension that the operand lacks", d);
    open += asked[d] == -1;
    if (open > 1 || (asked[d].low() < 0 && !(asked[d] == -1)))
      return op.fail("reshape-shape", "shape {} is no shape", text_of(asked));
  }
  return true;
}

/// The requested shape; nothing after reporting.
static std::optional<Shape> asked_shape(const OpView& op) {
  const std::vector<Length> asked = *op.lengths_of("shape", 1);
  if (!is_shape(op, asked)) return {};
  if (const auto lengths = asked_lengths(op, asked)) return shape_of_lengths(op, *lengths);
  const Shape& from = op.type(0).shape;
  // The canonical form, which the compiler's own ops also have, gives run-time lengths by their bounds.
  const bool has_bounds = op.op().has("shape") && int_of(op.op(), "allowzero") &&
                          std::all_of(asked.begin(), asked.end(), [](const Length& l) { return l.low() >= 0; });
  if (has_bounds) return reshaped(op, ints_of(op.op(), "shape"));
  if (!is_static(from))
    return op.fail("reshape-length-unsupported",
                   "elements of shape {} fit shape {} for some lengths only; pin the length with --dim",
                   shape_text(from), text_of(asked)),
           std::nullopt;
  if (std::any_of(asked.begin(), asked.end(), [](const Length& l) { return l == -1; }))
    return op.fail("reshape-rest", "{} cannot be divided into {}", shape_text(from), text_of(asked)), std::nullopt;
  return op.fail("reshape-count", "the elements of shape {} cannot take shape {}", shape_text(from), text_of(asked)),
         std::nullopt;
}

static bool infer_reshape(const OpView& op, std::vector<TensorType>& results) {
  if (!op.lengths_of("shape", 1) && !is_given(op, 1, "shape", "shape")) return false;
  const std::optional<Shape> shape = asked_shape(op);
  if (!shape) return false;
  results = {{op.type(0).dtype, *shape, {}}};
  return true;
}

/// Stores the shape without 0 and -1, in which all later passes read it.
static void canonical_reshape(Op& op, const OpView& view) {
  const Dims dims = bounds(*asked_shape(view));
  op.set("allowzero", int64_t{1});
  op.set("shape", dims);
}

/// Attribute `shape` is the global result shape, without 0 for "keep" or -1.
const OpDef kReshape{.kind = OpKind::Reshape,
                     .name = "Reshape",
                     .onnx = {"Reshape", 5},
                     .attrs = {flag("allowzero", 0), {"shape", AttrType::Ints}},
                     .inputs = {1, 2},
                     .category = Category::View,
                     .constant_operands = {{.input = 1, .attr = "shape", .type = AttrType::Ints, .is_canonical = true}},
                     .infer = infer_reshape,
                     .canonicalize = canonical_reshape,
                     .relate = relate_reshape,
                     .linear = {{0}},
                     .gradient = WEFT_GRADIENT({g.reshape_to(x.shape())}),
                     .eval = copy_linear,
                     .takes_strings = true};

}  // namespace weftc
