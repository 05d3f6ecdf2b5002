// --check-nan of a training: finds the step that computed the first non-finite number. The steps of a stream announce
// the buffers that they are about to use. Elements whose bits a step changes are its results.
#pragma once
#include <mutex>
#include <string>
#include <vector>

#include "rank_base.h"
#include "weft/rank_surface.h"

namespace weft {

/// The first number among `count` elements that is not finite, and whose bits differ from `before`, if given. A NaN has
/// priority over infinities.
struct NotFinite {
  int64_t element = -1;  // -1: all are finite
  bool is_nan = false;
};
NotFinite find_not_finite(DType dtype, const char* elements, int64_t count, const char* before = nullptr);

/// "'h1' (MatMul h1, Add h2, Relu h) computes nan, as element 3 of 128", the elements of a buffer that the step uses.
std::string oddity_text(const Step& step, int64_t count, const NotFinite& found);

/// Checks the results of the steps of one stream of the host. NaN ends the training at once. Infinities are only
/// remembered, because masks consist of them. If a training's results are not finite, the first infinity is reported as
/// the cause.
class FiniteCheck final : public AccessWatch {
 public:
  explicit FiniteCheck(const RankBase& rank) : rank_(rank) {}

  void begin_invocation();
  void begin_step();
  /// Throws Failure (wrong input) if the step has computed NaN.
  void end_step(const Step& step);
  /// From any thread of the stream.
  void touch(const void* at, int64_t count, DType dtype) override;
  const Oddity& first_infinity() const { return first_infinity_; }

 private:
  struct Touched {
    const char* at;
    int64_t count;
    DType dtype;
    std::vector<char> before;  // empty: all of it was finite
  };

  const RankBase& rank_;
  std::mutex mutex_;
  std::vector<Touched> touched_;  // by the open steps, outer first
  std::vector<size_t> begins_;    // of each open step in that list
  Oddity first_infinity_;
};

/// All ranks call it after an iteration. Throws Failure (wrong input) if a result is not finite.
void check_results(RankBase& rank);
/// The name of an input, other than states, with a number that is not finite; empty: all are finite.
std::string odd_input(const RankBase& rank);

}  // namespace weft
