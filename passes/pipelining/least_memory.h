// Whether one micro-batch at a time keeps the limits of memory: where it does not, no pipeline does.
#pragma once
#include "passes/pipelining/problem.h"

namespace weftc {

struct OrderResult {
  bool is_found;
  bool is_certain;         // false: the search gave up
  std::vector<int> order;  // where one is found
};

/// An order of the blocks of one micro-batch in which no device exceeds its limit.
OrderResult order_within(const PipelineProblem& problem);

/// The least limit of one device with which some order keeps it, the other devices having no limit. Halving finds it
/// without knowing the sums that it can be.
int64_t least_limit(const PipelineProblem& problem, size_t device);

}  // namespace weftc
