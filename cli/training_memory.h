// The use of a training step's memory.
#pragma once
#include <string>

#include "passes/plan/memory_peak.h"

namespace weftc {

/// Bytes that are held at the peak of a memory, by purpose.
struct TrainingMemory {
  int64_t parameters = 0, optimizer = 0, gradients = 0;
  int64_t activations = 0;  // values that the forward pass makes and the backward pass reads
  int64_t others = 0;       // inputs, and values that live inside one phase

  /// "parameters 3.2 MiB, optimizer 6.4 MiB, gradients 3.2 MiB, kept for the backward pass 12.0 MiB, others 1.0 MiB".
  std::string text() const;
  std::string json() const;
};
/// The plan must be a training's.
TrainingMemory training_memory(const Plan& plan, const MemoryPeak& peak);

}  // namespace weftc
