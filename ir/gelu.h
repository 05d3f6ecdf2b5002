// Recognises Gelu among pointwise ops, where the decomposition left it or an exporter spelled it out.
#pragma once
#include <optional>

#include "ir/constants.h"
#include "ir/graph.h"

namespace weftc {

/// The ops that were recognised.
struct Gelu {
  ValueId result;
  std::vector<OpId> ops;  // operands first
  bool is_alone = false;  // nothing else reads x or what lies between x and the result
};

/// The ops that compute x/2 * (1 + f(u)) from `x`, in whatever order and grouping, where f(u) is by OpKind::Tanh
/// tanh(sqrt(2/pi) * (x + 0.044715 x^3)), by OpKind::Erf erf(x / sqrt(2)); other constants, beyond what the type of x
/// rounds, are another function.
std::optional<Gelu> find_gelu(const Graph& graph, const Constants& constants, ValueId x, OpKind by);

}  // namespace weftc
