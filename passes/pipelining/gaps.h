// How far apart two blocks of a device may start, as remainders of the period.
#pragma once
#include "passes/pipelining/problem.h"

namespace weftc {

struct Gap {
  int64_t least, most;  // start of the second block minus start of the first, from 0 to the period
};

/// The gaps that leave room for both blocks. On each device that both use, some of the other blocks must fit between
/// them and the rest outside: the idle time cannot exceed the period minus the load. Sorted; empty if there is no gap.
std::vector<Gap> gaps_between(const PipelineProblem& problem, int first, int second, int64_t period);

/// The nearest difference, from `difference` up (`upwards`) or down, whose remainder is in a gap; gaps must not be
/// empty.
int64_t round_to_gap(const std::vector<Gap>& gaps, int64_t difference, int64_t period, bool upwards);

/// Division that rounds down, also below zero.
constexpr int64_t floor_divide(int64_t a, int64_t b) { return a / b - (a % b < 0 ? 1 : 0); }

}  // namespace weftc
