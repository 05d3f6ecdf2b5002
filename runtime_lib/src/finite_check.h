// --check-nan of a training: which step has computed the first number that is not finite. The steps of a stream tell
// which buffers they are about to use; those whose bits are others behind the step are its results.
#pragma once
#include <mutex>
#include <string>
#include <vector>

#include "rank_base.h"
#include "weft/rank_surface.h"

namespace weft {

/// The first number among `count` elements that is not finite, and whose bits are not those of `before`, where that is
/// given; NaN before infinities.
struct NotFinite {
  int64_t element = -1;  // -1: there is none
  bool is_nan = false;
};
NotFinite find_not_finite(DType dtype, const char* elements, int64_t count, const char* before = nullptr);

/// "'h1' (MatMul h1, Add h2, Relu h) computes nan, as element 3 of 128", the elements of a buffer that the step uses.
std::string oddity_text(const Step& step, int64_t count, const NotFinite& found);

/// What the steps of one stream of the host compute. NaN ends the training at once. Masks are made of infinities, so
/// that these are only remembered: of a training whose results are not finite, the first one is where that began.
class FiniteCheck final : public AccessWatch {
 public:
  explicit FiniteCheck(const RankBase& rank) : rank_(rank) {}

  void begin_invocation();
  void begin_step();
  /// Throws Failure (wrong input) where the step has computed NaN.
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

/// Behind an iteration, all ranks together. Throws Failure (wrong input) where what it leaves is not finite.
void check_results(RankBase& rank);
/// The name of an input, other than states, that holds a number which is not finite; empty: none does.
std::string odd_input(const RankBase& rank);

}  // namespace weft
