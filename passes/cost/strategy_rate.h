// How near a kernel's strategy comes to the rate of the machine for the products and convolutions in it.
#pragma once
#include "ir/plan.h"

namespace weftc {

struct StrategyRate {
  double part = 1;           // of the peak rate; above 1 where fewer operations do than the definition has
  bool tensor_cores = true;  // 16-bit products reach the rate that the machine has for them
};
/// For a kernel that holds a product or convolution of elements of `dtype`.
StrategyRate strategy_rate(const Strategy& strategy, const Target& target, DType dtype);

}  // namespace weftc
