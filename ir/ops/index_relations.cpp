// Conditions that indices from a range put on the dimension that they address. Positions of tokens are such indices:
//
//   Gather(table f32[6, 4], Range(past, past + seq))       past + seq <= 6
//
// A condition is added only if the greatest index is certain to be among the elements. For other indices the program
// checks each one.
#include <algorithm>
#include <cmath>

#include "ir/ops/index.h"
#include "ir/ops/relations.h"

namespace weftc {

namespace {

/// The smallest and the greatest element of a tensor. Both occur, unless the tensor has no elements.
struct IndexRange {
  Length least, greatest;
};

/// The range of a Constant, or of an Iota: start, start + step, ... for each index of the dimension.
std::optional<IndexRange> range_of_source(const OpView& op) {
  if (op.op().kind == OpKind::Constant) {
    const Tensor tensor = op.module().constants.tensor(op.op().constant("value"));
    if (tensor.size() == 0 || tensor.is_real()) return {};
    const auto [least, greatest] = std::minmax_element(tensor.integers.begin(), tensor.integers.end());
    return IndexRange{*least, *greatest};
  }
  const double start = real_of(op.op(), "start"), step = real_of(op.op(), "step");
  const auto is_whole = [](double number) { return std::abs(number) <= 0x1p31 && std::floor(number) == number; };
  if (!is_whole(start) || !is_whole(step)) return {};
  const Length first = static_cast<int64_t>(start);
  const Length count = length_of(op.result_type(0).shape[static_cast<size_t>(int_of(op.op(), "axis"))]);
  const Length last = first + (count - 1) * static_cast<int64_t>(step);
  return step < 0 ? IndexRange{last, first} : IndexRange{first, last};
}

/// True if results have exactly the elements of the first operand.
bool keeps_elements(OpKind kind) {
  return kind == OpKind::Cast || kind == OpKind::Expand || kind == OpKind::Reshape || kind == OpKind::Transpose;
}

/// Whether the type holds every integer of the range.
bool holds(DType dtype, const IndexRange& range) {
  constexpr int64_t kMost = 1 << 24;
  const bool is_wide = dtype == DType::I32 || dtype == DType::I64 || dtype == DType::F32 || dtype == DType::F64;
  return is_wide && range.least.low() >= -kMost && range.greatest.high() <= kMost;
}

/// The one element of operand `input`.
std::optional<Length> single(const OpView& op, int input) {
  const std::optional<std::vector<Length>> elements = op.lengths(input);
  return elements && elements->size() == 1 ? std::optional((*elements)[0]) : std::nullopt;
}

/// The range of operand 1: follows its elements through copies, with the numbers added on the way.
std::optional<IndexRange> range_of_indices(const OpView& op) {
  std::vector<DType> passed;
  Length added;
  const auto moved = [&](const IndexRange& range) -> std::optional<IndexRange> {
    const IndexRange all{range.least + added, range.greatest + added};
    const auto fits = [&](DType dtype) { return holds(dtype, all) && holds(dtype, range); };
    return std::ranges::all_of(passed, fits) ? std::optional(all) : std::nullopt;
  };
  if (const std::optional<Length> only = single(op, 1)) return IndexRange{*only, *only};
  for (OpId id = op.graph().producer(op.op().inputs[1]); id;) {
    const OpView maker = op.with(op.graph().op(id));
    passed.push_back(maker.result_type(0).dtype);
    if (maker.op().kind == OpKind::Constant || maker.op().kind == OpKind::Iota) {
      const std::optional<IndexRange> range = range_of_source(maker);
      return range ? moved(*range) : std::nullopt;
    }
    int from = 0;
    if (maker.op().kind == OpKind::Add) {
      from = single(maker, 0) ? 1 : 0;
      const std::optional<Length> by = single(maker, 1 - from);
      if (!by) return {};
      added = added + *by;
    } else if (!keeps_elements(maker.op().kind)) {
      return {};
    }
    if (const std::optional<Length> only = single(maker, from)) return moved({*only, *only});
    id = op.graph().producer(maker.op().inputs[static_cast<size_t>(from)]);
  }
  return {};
}

/// A polynomial with one named length set to 0; nothing if the length is not a polynomial.
std::optional<Length> where_zero(const Length& length, const LengthSymbol& name) {
  Length left;
  for (const Length::Term& term : length.terms()) {
    Length product = term.coefficient;
    for (const LengthSymbolPtr& factor : term.factors) {
      if (factor->kind != LengthSymbol::Kind::Named) return {};
      product = product * (factor->text == name.text ? Length() : Length(factor));
    }
    left = left + product;
  }
  return left;
}

/// The length, or 0 if the indices have no elements: then there is no condition. Example: min(past + seq, batch * 64).
Length where_there_are_any(const Length& length, const Length& most, const Shape& indices) {
  Length count = 1;
  for (const Extent& extent : indices) {
    const Length each = length_of(extent);
    const LengthSymbol* name = as_name(each);
    const std::optional<Length> room = name ? where_zero(most - length, *name) : std::nullopt;
    const bool is_kept_anyway = each.low() > 0 || (room && room->low() >= 0);
    if (!is_kept_anyway) count = count * each;
  }
  return count == 1 || length.high() < 1 ? length : minimum(length, count * length.high());
}

}  // namespace

std::vector<LengthRelation> relations_of_indices(const OpView& op, int64_t axis) {
  if (op.op().has("inside")) return {};
  const Shape& indices = op.type(1).shape;
  const std::optional<IndexRange> range = element_count(bounds(indices)) ? range_of_indices(op) : std::nullopt;
  if (!range) return {};
  const Length extent = length_of(op.type(0).shape[static_cast<size_t>(axis)]);
  std::vector<LengthRelation> relations = {at_most(range->greatest + 1, extent),
                                           at_most(Length() - range->least, extent)};
  for (LengthRelation& relation : relations)
    relation.left = where_there_are_any(relation.left, relation.right, indices);
  return relations;
}

}  // namespace weftc
