// Which values of the forward pass are kept for the backward pass, by a smallest cut.
#pragma once
#include <functional>

#include "passes/prepare/smallest_cut.h"
#include "passes/prepare/training_passes.h"

namespace weftc {

/// What it takes to have a value in the backward pass, in units of one's own; FlowNetwork::kUnlimited: not that way.
struct KeepingPrices {
  std::function<int64_t(OpId)> again;    // to compute an op again
  std::function<int64_t(ValueId)> kept;  // to keep a value
};
/// The values that are kept where all that the backward pass reads costs least. Of several such choices it is that
/// which computes least again.
KeptValues cheapest_kept(const Graph& graph, const TrainingPasses& passes, const KeepingPrices& prices);

/// True for what takes too long to be done twice unless the schedule asks for it. Of composite ops, norms and the like
/// have a rule for their derivative; it is not known what others are made of.
bool is_costly(const Op& op);
/// The values of the fewest bytes from which all that the backward pass reads is computed again without anything
/// costly.
KeptValues fewest_bytes_kept(const Graph& graph, const TrainingPasses& passes);

}  // namespace weftc
