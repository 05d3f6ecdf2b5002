// How far a search may go. Work is counted, so that where it ends does not depend on how fast the machine is.
#pragma once
#include <functional>
#include <utility>

namespace weftc {

class SearchBudget {
 public:
  /// `most_work`: in entries of tables that are looked at; about 10^9 of them take a second. `is_stopped` ends it too.
  SearchBudget(double most_work, std::function<bool()> is_stopped)
      : most_work_(most_work), is_stopped_(std::move(is_stopped)) {}

  void spend(double work) { spent_ += work; }
  /// Allows this much more work.
  void extend(double work) { most_work_ += work; }
  double spent() const { return spent_; }
  bool is_over() const { return spent_ >= most_work_ || is_stopped_(); }

 private:
  double most_work_;
  double spent_ = 0;
  const std::function<bool()> is_stopped_;
};

}  // namespace weftc
