// When the buffers of a Plan are in use: ranges over the order of its steps.
//
//   steps:     0 input   1 ln   2 qkv   3 attention   4 output
//   x          [---------]                                          an input that step 1 reads last
//   x_norm               [-------]                                  written by 1, read by 2
//
// A range spans the accesses of its buffer; a loop that the buffer outlives counts as one step (inputs and outputs
// outlive all). Chunks overlap in loops on several streams, and where a step touches the memory of other ranks, which
// may be in another chunk. Threads that share the rows of a loop may be in different trips. A buffer of such a loop is
// live all through it.
#pragma once
#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "ir/plan.h"

namespace weftc {

/// First and last position, in the order of steps.
struct LiveRange {
  int first = INT32_MAX, last = -1;
  bool used() const { return last >= 0; }
  void add(int from, int to) { first = std::min(first, from), last = std::max(last, to); }
  void add(const LiveRange& other) { add(other.first, other.last); }
};

class LiveRanges {
 public:
  explicit LiveRanges(const Plan& plan);

  /// The position after the last step.
  int end() const { return static_cast<int>(names_.size()) - 1; }
  /// The range of the steps that touch a buffer, without those of `except`.
  LiveRange of(size_t buffer, const std::vector<const Step*>& except = {}) const;
  /// How long memory is taken by a buffer: by inputs from the beginning and to the end, by outputs to the end.
  LiveRange in_memory(size_t buffer) const;
  /// "h.0.ln_2 .. h.0.mlp.c_fc"
  std::string text(const LiveRange& range) const { return names_[range.first] + " .. " + names_[range.last]; }
  const std::string& name(int position) const { return names_[position]; }
  /// The number of the block of the step at a position; of the input and the output one that no block has.
  size_t block(int position) const { return blocks_[position]; }

 private:
  /// A loop or branch in the order of steps.
  struct Nest {
    int parent;  // -1: no such step
    LiveRange range;
    bool overlaps = false;  // chunks do
  };
  struct Use {
    int at, nest;
    size_t block;
    int stream;
    const Step* step;
  };

  void walk(const std::vector<Step>& steps, int nest);
  bool runs_again(const Use& use) const;
  void add_blocks(size_t buffer, const std::vector<Use>& uses, LiveRange& range) const;
  void join_streams();
  int common(int a, int b) const;
  int child_of(int home, int nest) const;

  const Plan& plan_;
  std::vector<std::string> names_;
  std::vector<size_t> blocks_;  // as long as names_
  std::vector<Nest> nests_;
  std::vector<std::vector<Use>> uses_;
  std::vector<bool> is_port_;
  std::vector<LiveRange> port_ranges_;  // not used: no port
  size_t block_ = 0;
  LiveRange again_;                                 // of the steps that run for each micro-batch
  std::vector<std::pair<int, const Step*>> outer_;  // steps that no other holds, by position
  std::map<int, int> joins_;                        // of steps that run beside others: the step that waits for them
};

}  // namespace weftc
