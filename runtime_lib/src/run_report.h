// Rank 0's record of a run, printed at its end.
#pragma once
#include <cstdint>
#include <optional>
#include <vector>

#include "generated_text.h"

namespace weft {

struct RunReport {
  int threads = 1;
  const char* variant = nullptr;        // the one that ran last; nullptr: no variants
  std::vector<double> latency_ms = {};  // of the measured invocations, or of generations' tokens after the first
  std::vector<double> computation_ms = {}, communication_ms = {};  // --overlap: alone
  std::vector<double> prompt_ms = {};                              // of generations: to the first token
  std::optional<Generated> text = {};                              // the last one
  int64_t peak_bytes = 0;                                          // of the largest rank
  int64_t device_bytes = 0;                                        // the same on its device
  int64_t received_bytes = 0;  // from peers in one invocation, through shared memory: of the rank with the most
};

}  // namespace weft
