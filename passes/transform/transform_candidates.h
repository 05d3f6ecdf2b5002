// What a tuner may try for one collective: sequences of split, reorder, fuse and overlap, as CoCoNet's autotuner builds
// them, that stand behind the steps of the user's schedule.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "ir/module.h"
#include "ir/schedule.h"

namespace weftc {

/// Steps for one collective; none: it stays as it is.
struct Candidate {
  std::string what;  // "split 1, reorder past 2, fuse, overlap 4 signal"
  std::vector<TransformStep> steps;
};

/// Collectives that a schedule can name, equal ones of all layers as one: "h.{l}.mlp.c_proj.sum". In graph order.
std::vector<std::string> tunable_collectives(const Module& module);

/// True if the steps can be applied behind those that the schedule has.
using IsLegal = std::function<bool(const std::vector<TransformStep>&)>;

/// All legal candidates for a name of tunable_collectives, the empty one first; none at all where the module no longer
/// has that collective. `module` is laid out and has gone through the schedule's own transforms; `chunks` are the chunk
/// counts to try. An all-reduce is split along each of its dimensions, its all-gather moved past as many of the ops
/// behind it as the rules allow, and all of that fused. A reduce-scatter is fused with what is computed from the slices
/// and gathered again, an all-gather with what computes its slices. Each of these, and each collective as it is, is
/// overlapped with the contraction or reduction that feeds it, with the chain that begins at the contraction before
/// that, with a contraction that reads it, and with all that can run in its chunks. All-reduces whose results are added
/// up are one, behind that.
std::vector<Candidate> transform_candidates(const Module& module, const std::string& collective,
                                            const std::vector<int>& chunks, const IsLegal& is_legal);

}  // namespace weftc
