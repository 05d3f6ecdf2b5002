// Compiled without the thread sanitizer's instrumentation, like everything that all operations pass through.
#include "scheduler.h"

#include <sched.h>

#include <algorithm>
#include <thread>

#include "memory.h"

namespace weft::emulation {

namespace {

/// Its address names the host thread.
thread_local char thread_mark;

/// A block on its way, with what belongs to its thread-sanitizer context.
struct Running {
  Block block;
  Operation* operation = nullptr;
  bool is_paused = false;
};

struct Worker {
  Random random{1};
  std::vector<Running*> live, idle;  // blocks that have begun, and finished ones to be used again
};

class Scheduler {
 public:
  Scheduler();
  void submit(Operation& operation, std::span<Operation* const> after);
  void complete(Operation& operation);
  void release_locked(Operation* operation);
  void await(Operation& operation);
  bool is_polled_and_shared(int device);
  Lock lock;

 private:
  struct Chosen {
    Operation* operation = nullptr;
    uint64_t first_block = 0, blocks = 0;
  };
  void work(Worker& worker);
  Chosen choose(Worker& worker, int64_t& sleep_ns);
  bool may_begin(const Operation& operation) const;
  void begin(Operation& operation);
  void make_ready(Operation& operation);
  void execute(Worker& worker, const Chosen& chosen);
  bool advance(Running& running);
  void note_paused(Running& running, bool is_paused);
  void finish_block(Operation& operation);

  std::vector<Operation*> ready_;
  Bell bell_;
  Random random_;
  int64_t resident_[8] = {};  // threads of resident kernels on each device
  struct Users {
    const void* first = nullptr;  // of the host threads that asked for something
    bool are_several = false;
    int polling_blocks = 0;
  } users_[8];
  int workers_;
};

/// Never destroyed: its threads run as long as the process.
Scheduler& scheduler() {
  static Scheduler& it = *new Scheduler;
  return it;
}

Scheduler::Scheduler() : random_(knobs().seed) {
  workers_ = knobs().workers > 0 ? knobs().workers : std::max(2, int(std::thread::hardware_concurrency()));
  for (int i = 0; i < workers_; ++i)
    std::thread([this, i] {
      Worker worker;
      worker.random = Random(knobs().seed * 977 + uint64_t(i));
      work(worker);
    }).detach();
}

void Scheduler::submit(Operation& operation, std::span<Operation* const> after) {
  tsan_release(&operation.submitted);
  const QuietGuard guard(lock);
  Users& users = users_[operation.device];
  if (users.first == nullptr) users.first = &thread_mark;
  users.are_several |= users.first != &thread_mark;
  ++operation.references;  // until it is done
  operation.edges.before.push_back(&operation.submitted);
  operation.edges.after = &operation.completed;
  for (Operation* other : after) {
    if (other == nullptr) continue;
    ++other->references;
    operation.after.push_back(other);
    operation.edges.before.push_back(&other->completed);
    if (other->done.load(std::memory_order_relaxed)) continue;
    other->before.push_back(&operation);
    ++operation.waiting_for;
  }
  if (operation.kernel != nullptr) {
    const dim3 grid = operation.kernel->grid;
    operation.blocks = operation.blocks_left = uint64_t{grid.x} * grid.y * grid.z;
  }
  if (operation.waiting_for == 0) make_ready(operation);
}

void Scheduler::make_ready(Operation& operation) {
  const int delay = knobs().delay_us;
  if (delay > 0 && random_.below(4) == 0)
    operation.not_before_ns = int64_t(clock_ns()) + int64_t(random_.below(uint64_t(delay) * 1000));
  ready_.push_back(&operation);
  bell_.ring();
}

void Scheduler::complete(Operation& operation) {
  const QuietGuard guard(lock);
  operation.finished_ns = int64_t(clock_ns());
  operation.done.store(true, std::memory_order_release);
  for (Operation* other : operation.before)
    if (--other->waiting_for == 0) make_ready(*other);
  operation.before.clear();
  for (Operation* other : operation.after) release_locked(other);
  operation.after.clear();
  if (operation.kernel != nullptr && operation.kernel->resident)
    resident_[operation.device] -= int64_t(operation.blocks * operation.kernel->block.x);
  release_locked(&operation);
  bell_.ring();
}

void Scheduler::release_locked(Operation* operation) {
  if (operation != nullptr && --operation->references == 0) delete operation;
}

void Scheduler::await(Operation& operation) {
  for (;;) {
    const uint32_t seen = bell_.count();
    if (operation.done.load(std::memory_order_acquire)) break;
    bell_.wait(seen);
  }
  tsan_acquire(&operation.completed);
}

/// A resident kernel begins once there is room for all of its blocks.
bool Scheduler::may_begin(const Operation& operation) const {
  if (operation.kernel == nullptr || !operation.kernel->resident || operation.blocks_begun > 0) return true;
  const int64_t threads = int64_t(operation.blocks * operation.kernel->block.x);
  return resident_[operation.device] + threads <= int64_t{knobs().sms} * 2048;
}

void Scheduler::begin(Operation& operation) {
  const Launch& kernel = *operation.kernel;
  const bool shuffled = knobs().order == Order::Random;
  operation.order = shuffled ? Permutation::shuffled(operation.blocks, random_) : Permutation{operation.blocks};
  if (kernel.resident) resident_[operation.device] += int64_t(operation.blocks * kernel.block.x);
}

Scheduler::Chosen Scheduler::choose(Worker& worker, int64_t& sleep_ns) {
  const QuietGuard guard(lock);
  const int64_t now = knobs().delay_us > 0 ? int64_t(clock_ns()) : 0;
  const size_t turn = knobs().order == Order::Random && !ready_.empty() ? worker.random.below(ready_.size()) : 0;
  for (size_t i = 0; i < ready_.size(); ++i) {
    const size_t at = (turn + i) % ready_.size();
    Operation& operation = *ready_[at];
    if (operation.not_before_ns > now) {
      sleep_ns = std::min(sleep_ns, operation.not_before_ns - now);
      continue;
    }
    if (!may_begin(operation)) continue;
    Chosen out{&operation};
    if (operation.kernel != nullptr) {
      if (operation.blocks_begun == 0) begin(operation);
      const uint64_t left = operation.blocks - operation.blocks_begun;
      out.first_block = operation.blocks_begun;
      out.blocks = operation.kernel->resident ? 1 : std::clamp<uint64_t>(left / uint64_t(4 * workers_), 1, 64);
      operation.blocks_begun += out.blocks;
      if (operation.blocks_begun < operation.blocks) return out;
    }
    ready_.erase(ready_.begin() + int64_t(at));
    return out;
  }
  return {};
}

void Scheduler::work(Worker& worker) {
  for (;;) {
    const uint32_t seen = bell_.count();
    int64_t sleep_ns = 1'000'000'000;
    const Chosen chosen = choose(worker, sleep_ns);
    if (chosen.operation != nullptr) execute(worker, chosen);
    for (size_t i = 0; i < worker.live.size();)
      if (advance(*worker.live[i])) {
        worker.idle.push_back(worker.live[i]);
        worker.live.erase(worker.live.begin() + int64_t(i));
      } else {
        ++i;
      }
    if (chosen.operation != nullptr) continue;
    if (worker.live.empty())
      bell_.wait(seen, sleep_ns);
    else
      sched_yield();
  }
}

/// In a thread-sanitizer context of its own: what this OS thread did before is not ordered before it.
bool run_work(Operation& operation) {
  void *const worker = tsan_current(), *const own = tsan_new_fiber();
  tsan_switch(own);
  for (const void* edge : operation.edges.before) tsan_acquire(edge);
  const bool finished = operation.work == nullptr || (*operation.work)(operation);
  if (finished) tsan_release(&operation.completed);
  tsan_switch(worker);
  tsan_end_fiber(own);
  return finished;
}

void Scheduler::execute(Worker& worker, const Chosen& chosen) {
  Operation& operation = *chosen.operation;
  if (operation.kernel == nullptr) {
    if (run_work(operation)) complete(operation);
    return;
  }
  for (uint64_t b = 0; b < chosen.blocks; ++b) {
    if (worker.idle.empty()) worker.idle.push_back(new Running);
    Running& running = *worker.idle.back();
    running.operation = &operation;
    running.block.start(*operation.kernel, operation.edges, operation.order.at(chosen.first_block + b),
                        worker.random.next());
    if (advance(running)) continue;
    worker.idle.pop_back();
    worker.live.push_back(&running);
  }
}

/// True: the block has finished.
bool Scheduler::advance(Running& running) {
  const bool is_paused = running.block.run() == Block::Result::Paused;
  if (is_paused != running.is_paused) note_paused(running, is_paused);
  if (is_paused) return false;
  finish_block(*running.operation);
  return true;
}

void Scheduler::note_paused(Running& running, bool is_paused) {
  const QuietGuard guard(lock);
  users_[running.operation->device].polling_blocks += is_paused ? 1 : -1;
  running.is_paused = is_paused;
}

bool Scheduler::is_polled_and_shared(int device) {
  const QuietGuard guard(lock);
  return users_[device].are_several && users_[device].polling_blocks > 0;
}

void Scheduler::finish_block(Operation& operation) {
  {
    const QuietGuard guard(lock);
    if (--operation.blocks_left > 0) return;
  }
  char name[256];
  check_red_zones(function_name(operation.kernel->function, name, sizeof name));
  complete(operation);
}

}  // namespace

void submit(Operation& operation, std::span<Operation* const> after) { scheduler().submit(operation, after); }
void complete(Operation& operation) { scheduler().complete(operation); }
void await(Operation& operation) { scheduler().await(operation); }
bool is_polled_and_shared(int device) { return scheduler().is_polled_and_shared(device); }

void retain(Operation* operation) {
  const QuietGuard guard(scheduler().lock);
  if (operation != nullptr) ++operation->references;
}

void release(Operation* operation) {
  const QuietGuard guard(scheduler().lock);
  scheduler().release_locked(operation);
}

int resident_on_one(uint64_t threads) {
  if (threads == 0 || threads > 1024) return 0;
  return int(std::min<uint64_t>(2048 / ((threads + 31) / 32 * 32), 32));
}

Lock& state_lock() {
  static Lock& it = *new Lock;
  return it;
}

}  // namespace weft::emulation
