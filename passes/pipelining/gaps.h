// How far apart two blocks of a device may start, as remainders of the period.
#pragma once
#include "passes/pipelining/problem.h"

namespace weftc {

struct Gap {
  int64_t least, most;  // start of the second block minus start of the first, from 0 to the period
};

/// The gaps that leave room for both blocks and, on each device that both use, for a choice of the other blocks between
/// them and the rest of them outside: what is idle cannot exceed the period minus the load. Sorted; empty: there is
/// none.
std::vector<Gap> gaps_between(const PipelineProblem& problem, int first, int second, int64_t period);

/// The least difference from `difference` on (`upwards`: up, otherwise down) of which the remainder is in a gap; gaps
/// must not be empty.
int64_t round_to_gap(const std::vector<Gap>& gaps, int64_t difference, int64_t period, bool upwards);

/// Division that rounds down, also below zero.
constexpr int64_t floor_divide(int64_t a, int64_t b) { return a / b - (a % b < 0 ? 1 : 0); }

}  // namespace weftc
