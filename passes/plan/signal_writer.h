// Adds signals, waits and streams to the steps of a Plan; used to order loops and transfers.
#pragma once
#include <string>
#include <vector>

#include "ir/plan_walk.h"

namespace weftc {

/// The stream on which a rank computes; it is the first of every Plan.
inline constexpr int kComputeStream = 0;
/// The number of instances of a buffer that one step fills while another still reads it; they take turns.
inline constexpr int kInstances = 2;

class SignalWriter {
 public:
  explicit SignalWriter(Plan& plan) : plan_(plan) {}

  /// The number of the stream of that name; adds the stream if it is missing.
  int stream(const std::string& name);
  /// The element of a signal that has one element only, or one for each micro-batch if there are several.
  Per once() const { return plan_.micro_batches > 1 ? Per::MicroBatch : Per::Once; }
  /// The signal that `step` raises when it is done, one of `count` elements: for its own rank's streams, or for the
  /// ranks of `axes`. It is added unless the step raises such a signal already.
  SignalId done_signal(Step& step, const std::vector<int>& axes, int count);
  /// The same for a step of another place, whose buffers it does not touch.
  SignalId done_signal(Step& step, PlaceId place, const std::vector<int>& axes, int count);

 private:
  Plan& plan_;
};

/// The last leaf step on `stream` that precedes steps[at], and the number of times that it runs (`count`, left as it is
/// outside of loops). Descends into the last chunk of For loops; an If or a Loop counts as one step.
Step* last_leaf(std::vector<Step>& steps, size_t at, int stream, int& count);
/// The same for the blocks that run before this one at its place, where the Plan's order determines them: for a step
/// that runs once after all micro-batches, it is in the last one. Null for other blocks.
Step* last_leaf_before(Plan& plan, const Block& block, int stream, int& count);
/// The step that runs first when `step` begins: itself, or the first one inside.
Step& first_leaf(Step& step);

/// The axes whose ranks have all reached a step when it ends: those of a collective, or of a kernel over the peer
/// table.
std::vector<int> meeting_axes(const Plan& plan, const Step& step);
/// True if all ranks of these axes have reached the step when it ends.
bool is_meeting_of(const Plan& plan, const Step& step, const std::vector<int>& axes);
/// True if a step exchanges data with other ranks while it runs.
bool meets_ranks(const Plan& plan, const Step& step);
/// True if one of two accesses writes the buffer that both touch.
bool conflict(const Access& a, const Access& b);
/// True for a collective that runs on a stream of its own, beside steps that do not need it.
bool runs_beside(const Step& step);
/// True if two steps, or one inside the first and the second, have conflicting accesses.
bool touches_same(const Step& a, const Step& b);
std::vector<const Step*> pointers_to(const std::vector<Step>& steps);
/// For each step that runs beside others, the index of the step that waits for it or for a later one of its stream.
/// The number of steps where no step waits, and for all other steps.
std::vector<size_t> joins_of(const std::vector<const Step*>& steps);
/// True if two steps have conflicting accesses; `buffer` becomes that of the first pair.
bool conflict(const Step& a, const Step& b, BufferId* buffer = nullptr);

}  // namespace weftc
