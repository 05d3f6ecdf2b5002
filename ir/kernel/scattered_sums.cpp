#include "ir/kernel/scattered_sums.h"

namespace weftc {

std::optional<DType> scattered_sum_type(const Op& scatter, DType dtype, int64_t elements, int64_t updates) {
  constexpr int64_t kMany = 16, kSmallTable = 1 << 14;
  const bool adds = scatter.has("reduction") && scatter.text("reduction") == "add";
  if (!adds || !is_float(dtype) || dtype_bytes(dtype) > 4) return {};
  if (updates >= kMany * elements || (updates > kMany && elements <= kSmallTable)) return DType::F64;
  return dtype_bytes(dtype) < 4 ? std::optional(DType::F32) : std::nullopt;
}

}  // namespace weftc
