// --check-nan of a training on a device: which step has computed the first number that is not finite. Kernels look at
// the buffers of a step before it begins and behind it, in the order of its stream, so that the host waits for nothing.
#pragma once
#include <functional>
#include <vector>

#include "finite_check.h"
#include "kernels.h"
#include "memory.h"

namespace weft {

class FiniteWatch final : public AccessWatch {
 public:
  /// Gives memory of the device for as long as it is kept: how many bytes, for what.
  using Memory = std::function<DeviceBytes(int64_t, const char*)>;
  FiniteWatch(size_t streams, Memory memory);

  /// Before the steps of an iteration are issued, on the stream that they follow, and when all of them have run.
  void begin_invocation(cudaStream_t stream);
  void end_invocation(cudaStream_t stream);
  void begin_step(int number, cudaStream_t stream);
  void end_step(const Step& step);
  /// Of the step that was begun last, if any is open, from the thread that issues it.
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
  /// The open steps of one stream. Steps of a stream run one behind the other, so that their marks share memory.
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
