// Ops that a device's library can apply to the result of a product. Fusion puts these ops into the product's kernel,
// and the rule of the library's strategy reads them there: both ask this one function.
#pragma once
#include <optional>
#include <vector>

#include "ir/constants.h"
#include "ir/graph.h"
#include "ir/strategy.h"

namespace weftc {

/// One op that the library applies to the elements of a product.
struct EpilogueStep {
  std::vector<OpId> ops;  // operands first
  ValueId result;
  ValueId bias;  // one number a column, the same for all rows; invalid: an activation
  Activation activation = Activation::None;
  bool is_alone = false;  // nothing else reads the value before it
};

/// The step that follows `value`, after the steps `before`: a bias first, then one activation.
std::optional<EpilogueStep> next_epilogue_step(const Graph& graph, const Constants& constants, ValueId value,
                                               const std::vector<EpilogueStep>& before);

}  // namespace weftc
