// --check-nan of a training on a device: finds the step that computed the first non-finite number. Kernels check the
// buffers of a step before and after it, in the order of its stream, so that the host never waits.
#pragma once
#include <functional>
#include <vector>

#include "finite_check.h"
#include "kernels.h"
#include "memory.h"

namespace weft {

class FiniteWatch final : public AccessWatch {
 public:
  /// Allocates device memory: how many bytes, for what. The result owns it.
  using Memory = std::function<DeviceBytes(int64_t, const char*)>;
  FiniteWatch(size_t streams, Memory memory);

  /// Called before the steps of an iteration are issued, on the stream that they follow, and when all have run.
  void begin_invocation(cudaStream_t stream);
  void end_invocation(cudaStream_t stream);
  void begin_step(int number, cudaStream_t stream);
  void end_step(const Step& step);
  /// Notes memory of the step that began last, if one is open. Called by the thread that issues it.
  void touch(const void* at, int64_t count, DType dtype) override;

  const Oddity& first(NumberKind kind) const { return first_[size_t(kind)]; }

 private:
  /// A buffer that an open step is about to use.
  struct Touched {
    const void* at;
    int64_t count;
    DType dtype;
    NotFiniteMark* before;  // on the device
  };
  /// The open steps of one stream. Steps of a stream run in sequence, so their marks share memory.
  struct OpenSteps {
    std::vector<Touched> touched;  // outer first
    std::vector<size_t> begins;    // of each step in that list
    std::vector<int64_t> used;     // how many marks there were before each step
    int64_t count = 0, capacity = 0;
    NotFiniteMark* marks = nullptr;
  };
  struct Check {
    Step step;
    int64_t count;
  };
  NotFiniteMark* take_marks(OpenSteps& open, int64_t elements);

  const Memory memory_;
  std::vector<OpenSteps> open_;                        // by stream
  std::vector<std::pair<int, cudaStream_t>> streams_;  // of the open steps, outer first
  std::vector<Check> checks_;                          // that this iteration has issued, by number
  std::vector<DeviceBytes> kept_;
  NotFiniteFound* found_ = nullptr;  // on the device
  Oddity first_[kNumberKinds];
};

}  // namespace weft
