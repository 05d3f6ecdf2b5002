// Panels of a matrix that a thread multiplies with one block of rows after the other.
#pragma once
#include <cstdint>

#include "weft/scratch.h"

namespace weft {

/// Room for the panels of one matrix, and which one has them. What fills it is in panels.h, of which each level of CPUs
/// has its own.
struct KeptPanels {
  explicit KeptPanels(int64_t bytes) : memory(bytes) {}
  const Scratch<char> memory;
  const void* packed = nullptr;  // the matrix
};

}  // namespace weft
