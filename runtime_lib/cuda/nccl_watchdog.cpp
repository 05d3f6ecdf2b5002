// The thread that looks at how long the rank's thread has been inside of NCCL.
#include "nccl_watchdog.h"

#include <unistd.h>

#include "wait.h"

namespace weft {

NcclWatchdog::NcclWatchdog(const CudaState& state) : state_(state) {
  if (!state.options.in_process) thread_ = std::thread([this] { watch(); });
}

NcclWatchdog::~NcclWatchdog() {
  {
    const std::lock_guard guard(mutex_);
    stops_ = true;
  }
  stop_.notify_all();
  if (thread_.joinable()) thread_.join();
}

NcclWatchdog::Call::Call(NcclWatchdog& watchdog, const char* what) : watchdog_(watchdog) {
  watchdog.state_.set_awaited(Awaited::OtherRanks);
  watchdog.what_ = what;
  watchdog.since_ns_ = now_ns();
}

NcclWatchdog::Call::~Call() {
  watchdog_.since_ns_ = 0;
  watchdog_.state_.set_awaited(Awaited::Nothing);
}

void NcclWatchdog::watch() {
  std::unique_lock lock(mutex_);
  int64_t seen = 0;
  Patience patience(0);
  while (!stop_.wait_for(lock, std::chrono::milliseconds(50), [&] { return stops_; })) {
    const int64_t since = since_ns_;
    if (since != seen) patience = Patience(state_.options.timeout);
    seen = since;
    if (since != 0) look(since, patience.is_over());
  }
}

/// Ends the process. If another rank has failed, this rank's thread first gets a moment to return by itself.
void NcclWatchdog::look(int64_t since_ns, bool is_late) {
  constexpr int64_t kGrace = 1'000'000'000;
  if (now_ns() - since_ns > kGrace && state_.world.has_failed()) _exit(state_.world.failure());
  if (!is_late) return;
  try {
    state_.time_out_here(text("the other ranks: NCCL does not come back from %s", what_.load()));
  } catch (const Failure& failure) {
    report_failure(state_.executable.name, state_.world, state_.rank, failure);
  }
  _exit(state_.world.failure());
}

}  // namespace weft
