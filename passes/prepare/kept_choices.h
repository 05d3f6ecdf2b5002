// Choices of the values that the backward pass keeps, from all to next to none. A search compares the memory of their
// plans with a limit.
//
//   kept      bytes   computed again   most memory, estimated
//   all       1000    0                1900
//   r0 f0 ..   600    a0 a1            1500
//   r0 r1      200    a0 f0 a1 f1      1100
#pragma once
#include <string>
#include <vector>

#include "ir/module.h"

namespace weftc {

struct KeptChoice {
  std::vector<std::string> kept;  // names of values, in the order of the graph
  int64_t bytes = 0;              // of these
  double again = 0;               // recomputed operations, as a part of the forward pass
  int64_t peak = 0;  // of values of the forward pass, on one rank without fusion: an estimate to compare by
};
/// Choices for a module before `recompute`; the first keeps all. Each recomputes more than the one before it and is
/// estimated to take less memory. There are at most about thirty.
std::vector<KeptChoice> kept_choices(const Module& module);

}  // namespace weftc
