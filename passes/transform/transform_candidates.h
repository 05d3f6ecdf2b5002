// Candidates of a tuner for one collective: sequences of split, reorder, fuse and overlap, as CoCoNet's autotuner
// builds them. They are applied after the steps of the user's schedule.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "ir/module.h"
#include "ir/schedule.h"

namespace weftc {

/// Steps for one collective; an empty list leaves it as it is.
struct Candidate {
  std::string what;  // "split 1, reorder past 2, fuse, overlap 4 signal"
  std::vector<TransformStep> steps;
};

/// Collectives that a schedule can name, equal ones of all layers as one: "h.{l}.mlp.c_proj.sum". In graph order.
std::vector<std::string> tunable_collectives(const Module& module);

/// True if the steps can be applied after those of the schedule.
using IsLegal = std::function<bool(const std::vector<TransformStep>&)>;

/// All legal candidates for a name of tunable_collectives, the empty one first; nothing where the module no longer has
/// that collective. `module` is laid out and has gone through the schedule's own transforms; `chunks` are the chunk
/// counts to try.
///
/// An all-reduce is split along each of its dimensions, its all-gather is moved past as many of the following ops as
/// the rules allow, and all of that is fused. A reduce-scatter is fused with the ops that compute from its slices and
/// with the next all-gather, an all-gather with the ops that compute its slices.
///
/// Each of these, and each collective as it is, is overlapped with the contraction or reduction that feeds it, with the
/// chain from the contraction before that, and with a contraction that reads it. It is also overlapped with all ops
/// that can run in its chunks. At the end, all-reduces whose results are added up are merged into one.
std::vector<Candidate> transform_candidates(const Module& module, const std::string& collective,
                                            const std::vector<int>& chunks, const IsLegal& is_legal);

}  // namespace weftc
