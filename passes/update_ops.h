// Which ops of a training are its optimizer's.
#pragma once
#include <algorithm>

#include "ir/module.h"

namespace weftc {

/// True for ops of an optimizer: all nodes that the op comes from are of the update.
inline bool is_of_update(const Module& module, const Op& op) {
  return !op.origins.empty() && std::ranges::all_of(op.origins, [&](OriginId origin) {
    return module.origins[origin.index].phase == Phase::Update;
  });
}

}  // namespace weftc
