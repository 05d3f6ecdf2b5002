// The reasons why a pipeline problem has no answer.
#pragma once
#include "passes/pipelining/problem.h"

namespace weftc {

/// Why a problem has no answer, and for which block (-1: no single one).
struct PipelineFault {
  enum class Kind { Cycle, Freed, Kept, Memory, Undecided };
  Kind kind;
  int block = -1;
  int device = -1;
  int64_t least = 0;  // Memory: the least memory of the device; 0 where each device alone could keep its limit
};

/// The faults of a problem whose numbers are within their bounds.
///
/// Cycle: a block waits for itself. Freed: a block may give back memory that no block before it has taken. Kept: the
/// blocks of a device do not give back all that they take, so that no number of micro-batches is safe. Memory: not even
/// one micro-batch at a time keeps the limits. Undecided: whether it does takes too long to find out.
std::vector<PipelineFault> faults_of(const PipelineProblem& problem);

}  // namespace weftc
