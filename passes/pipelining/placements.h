// Whether the stages of a pipeline are placed in the pattern that an order needs.
#pragma once
#include <functional>
#include <string>

#include "passes/pipelining/staged_pipeline.h"

namespace weftc {

/// How a refusal names a stage.
using StageName = std::function<std::string(int stage)>;
std::string number_of_stage(int stage);

/// The stages of each place, where an order needs them in a pattern. Places are numbered as the first stages use them.
struct Placement {
  std::vector<std::vector<int>> stages;  // by place and chunk
  std::string refusal;                   // "" where the stages fit
};

/// p places, v stages at each: stage s of one chain is chunk s / p of place s % p. At least two stages each.
Placement round_robin_placement(const StagedPipeline& pipeline, const StageName& name);

/// One chain through places 0 to p - 1 and back: chunks are the way there and the way back.
Placement v_placement(const StagedPipeline& pipeline, const StageName& name);

/// Two chains that do not read each other: chunk 0 goes through places 0 to p - 1, chunk 1 the opposite way.
Placement opposite_placement(const StagedPipeline& pipeline, const StageName& name);

}  // namespace weftc
