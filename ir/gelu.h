// Recognises Gelu among pointwise ops, whether a decomposition made it or an exporter wrote it out.
#pragma once
#include <optional>

#include "ir/constants.h"
#include "ir/graph.h"

namespace weftc {

/// The ops that were recognised.
struct Gelu {
  ValueId result;
  std::vector<OpId> ops;  // operands first
  bool is_alone = false;  // no other op reads x or intermediate values
};

/// Finds the ops that compute x/2 * (1 + f(u)) from `x`, in any order and grouping. With OpKind::Tanh, f(u) is
/// tanh(sqrt(2/pi) * (x + 0.044715 x^3)); with OpKind::Erf, erf(x / sqrt(2)). Constants must match up to the rounding
/// of x's type.
std::optional<Gelu> find_gelu(const Graph& graph, const Constants& constants, ValueId x, OpKind by);

}  // namespace weftc
