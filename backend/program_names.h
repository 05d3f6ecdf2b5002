// The names of everything that an emitted program declares, and how steps refer to it.
#pragma once
#include <map>
#include <string>
#include <vector>

#include "backend/kernel_text.h"
#include "ir/plan_walk.h"

namespace weftc {

struct ProgramNames {
  std::string space;                           // the namespace
  std::vector<std::vector<std::string>> axes;  // by place and axis
  std::vector<std::string> streams, buffers, weights, signals, transfers, blocks;
  std::vector<std::string> kernels;  // by kernel
  Names taken;                       // all of them

  explicit ProgramNames(const Plan& plan);
  /// "tp", "{tp, dp}", "{}": axes of a place as an argument.
  std::string group(PlaceId place, const std::vector<int>& axes) const;
};

/// "128 * 768": how many elements a buffer's instance has, readable.
std::string count_text(const Dims& dims);

}  // namespace weftc
