// The times of collectives and transfers on a machine.
#pragma once
#include "ir/layout.h"
#include "ir/machine.h"
#include "ir/module.h"

namespace weftc {

/// The group of these ranks, which are numbered by units: rank r is in unit r / level.ranks of each level.
RankGroup group_of(const Machine& machine, const std::vector<int>& ranks);
/// The group that axes of a mesh over the ranks 0, 1, 2, ... join: the group of the first rank, which is like all
/// others.
RankGroup group_of(const Machine& machine, const Mesh& mesh, const std::vector<int>& axes);
/// The same for a place, with any ranks.
RankGroup group_of(const Machine& machine, const Place& place, const std::vector<int>& axes);

/// Seconds of AllReduce, ReduceScatter, AllGather, AllToAll, Broadcast, Reduce or Transfer (from one rank of two to the
/// other), while all other ranks of the machine do the same in groups of their own. `before` and `after` are the bytes
/// of one rank's operand and result. Nothing for one rank, and for ops that exchange nothing.
double collective_seconds(const Machine& machine, OpKind kind, int64_t before, int64_t after, const RankGroup& group);

/// Bytes that a rank sends in a direct exchange; `before` and `after` are the bytes of its operand and its result.
int64_t bytes_sent(OpKind kind, int64_t before, int64_t after, int ranks);

}  // namespace weftc
