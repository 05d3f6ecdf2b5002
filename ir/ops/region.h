// Common code of the records of ops that own graphs.
#pragma once
#include "ir/ops/record.h"

namespace weftc {

/// The type of a region's output without its layout, which inference does not know yet.
inline TensorType output_type(const Graph& region, size_t output) {
  TensorType type = region.type(region.outputs()[output].value);
  type.layout = {};
  return type;
}

}  // namespace weftc
