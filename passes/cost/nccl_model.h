// The time of a collective of NCCL by the model that NCCL itself chooses algorithms with.
#pragma once
#include "ir/machine.h"

namespace weftc {

/// As collective_seconds, on a machine that uses NCCL.
double nccl_seconds(const Machine& machine, OpKind kind, int64_t before, int64_t after, const RankGroup& group);

}  // namespace weftc
