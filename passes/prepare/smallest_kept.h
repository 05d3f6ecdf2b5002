// Which values of the forward pass are kept for the backward pass, by a smallest cut.
#pragma once
#include <functional>

#include "passes/prepare/smallest_cut.h"
#include "passes/prepare/training_passes.h"

namespace weftc {

/// Prices of having a value in the backward pass, in any unit; FlowNetwork::kUnlimited: that way is not allowed.
struct KeepingPrices {
  std::function<int64_t(OpId)> again;    // to compute an op again
  std::function<int64_t(ValueId)> kept;  // to keep a value
};
/// The values to keep so that all that the backward pass reads costs least. Among several such choices, takes the one
/// that recomputes least.
KeptValues cheapest_kept(const Graph& graph, const TrainingPasses& passes, const KeepingPrices& prices);

/// True for an op that takes too long to be computed twice unless the schedule asks for it. Composite ops with a
/// derivative rule, such as norms, are cheap enough; the parts of others are not known yet.
bool is_costly(const Op& op);
/// The values of the fewest bytes from which all that the backward pass reads can be recomputed without a costly op.
KeptValues fewest_bytes_kept(const Graph& graph, const TrainingPasses& passes);

}  // namespace weftc
