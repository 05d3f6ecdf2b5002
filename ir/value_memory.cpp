// Follows Reshapes to the value whose memory they share.
#include "ir/value_memory.h"

#include <algorithm>

#include "ir/kernel/index_expr.h"

namespace weftc {

bool is_copy(const Graph& graph, const Op& op) {
  return op.kind == OpKind::Reshape && graph.type(op.inputs[0]) == graph.type(op.outputs[0]);
}

ValueId memory_of(const Graph& graph, ValueId value) {
  for (const Op* op = &graph.producer_op(value); op->kind == OpKind::Reshape && !is_copy(graph, *op);
       op = &graph.producer_op(value))
    value = op->inputs[0];
  return value;
}

/// The extents in index algebra, by the names of the model's lengths.
static IndexDims index_dims_of(const Shape& shape) {
  IndexDims dims;
  for (const Extent& extent : shape) {
    const Length length = length_of(extent);
    const std::vector<Length::Term>& terms = length.terms();
    if (length.is_constant() || terms.size() != 1) {
      dims.push_back(length.is_constant() ? Scale(extent.bound) : Scale::length(length.text(), extent.bound));
      continue;
    }
    Scale product(terms[0].coefficient);
    for (const LengthSymbolPtr& factor : terms[0].factors)
      product = product * Scale::length(factor->text, factor->high);
    dims.push_back(product);
  }
  return dims;
}

/// The lengths of the dimensions, in alphabetical order.
static std::vector<std::string> names_of(const Shape& shape) {
  std::vector<std::string> names;
  for (const Extent& extent : shape) names.push_back(length_of(extent).text());
  std::sort(names.begin(), names.end());
  return names;
}

bool is_same_by_bounds(const Shape& from, const Shape& to) {
  if (from == to) return true;
  // A kernel shared by several layers has the first layer's lengths; the other layers have lengths of their own.
  const bool has_own_lengths = names_of(from) != names_of(to);
  if (has_own_lengths && bounds(from) == bounds(to)) return true;
  const IndexDims extents = index_dims_of(to);
  IndexList index;
  for (size_t d = 0; d < to.size(); ++d) index.push_back(index_variable("i" + std::to_string(d), extents[d]));
  const IndexList before = unravel(linear_index(index, extents), index_dims_of(from));
  return linear_index(before, bounds(from)) == linear_index(index, bounds(to));
}

}  // namespace weftc
