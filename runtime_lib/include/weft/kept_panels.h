// Packed panels of a matrix that a thread multiplies with several blocks of rows in turn.
#pragma once
#include <cstdint>

#include "weft/scratch.h"

namespace weft {

/// Memory for the panels of one matrix, and which matrix it holds. panels.h fills it, compiled for each level of CPUs.
struct KeptPanels {
  explicit KeptPanels(int64_t bytes) : memory(bytes) {}
  const Scratch<char> memory;
  const void* packed = nullptr;  // the matrix
};

}  // namespace weft
