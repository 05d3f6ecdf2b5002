// Operations of all streams of the process, with what each waits for, and the OS threads that run them in seeded order.
#pragma once
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "block.h"
#include "lock.h"

namespace weft::emulation {

struct Operation;

/// Copies, library calls, host functions. False: not complete yet, somebody calls complete() later.
using Work = std::function<bool(Operation&)>;

/// One thing that a stream does. References are counted under the scheduler's lock.
struct Operation {
  int device = 0;
  std::shared_ptr<const Work> work;      // either
  std::shared_ptr<const Launch> kernel;  // or; neither: a point that others wait for

  std::atomic<bool> done{false};
  int64_t finished_ns = 0;
  int references = 1, waiting_for = 0;
  std::vector<Operation*> after, before;  // whom it waits for, until it is done; who waits for it
  int64_t not_before_ns = 0;
  uint64_t blocks = 0, blocks_begun = 0, blocks_left = 0;
  Permutation order;
  Edges edges;
  char submitted = 0, completed = 0;  // their addresses are edges of the thread sanitizer
};

/// Starts `operation` once all of `after` are done (null ones and duplicates do no harm). The caller keeps its
/// reference.
void submit(Operation& operation, std::span<Operation* const> after);
void complete(Operation& operation);
void retain(Operation* operation);
void release(Operation* operation);
/// Blocks the calling host thread.
void await(Operation& operation);
/// Whether a kernel polls for something on a device that several host threads use.
bool is_polled_and_shared(int device);

/// Blocks of this size that one multiprocessor holds at a time.
int resident_on_one(uint64_t threads);

/// For state beside the scheduler's own: held briefly, never while something is awaited.
Lock& state_lock();

}  // namespace weft::emulation
