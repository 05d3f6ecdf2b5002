// NCCL's calls on the host wait for other ranks, some without a bound: to make a communicator, or to connect at the
// first message. If the rank is a process of its own, a thread ends it when that takes too long, or when another rank
// has failed. There is no other way out of such a call.
#pragma once
#include <atomic>
#include <condition_variable>
#include <mutex>
#include <thread>

#include "cuda_state.h"

namespace weft {

class NcclWatchdog {
 public:
  explicit NcclWatchdog(const CudaState& state);
  ~NcclWatchdog();

  /// While this object exists, the rank's thread is inside NCCL.
  class Call {
   public:
    Call(NcclWatchdog& watchdog, const char* what);
    ~Call();
    Call(const Call&) = delete;
    Call& operator=(const Call&) = delete;

   private:
    NcclWatchdog& watchdog_;
  };

 private:
  void watch();
  void look(int64_t since_ns, bool is_late);

  const CudaState& state_;
  std::atomic<int64_t> since_ns_{0};
  std::atomic<const char*> what_{nullptr};
  std::mutex mutex_;
  std::condition_variable stop_;
  bool stops_ = false;
  std::thread thread_;
};

}  // namespace weft
