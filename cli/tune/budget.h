// How long tuning may take, and how long it will.
#pragma once
#include <optional>
#include <string>

namespace weftc {

/// Seconds of "90s", "5m", "1.5h"; nothing for any other text, and for no time at all.
std::optional<double> parse_duration(const std::string& text);
/// "12 s", "3 min", "1.5 h".
std::string duration_text(double seconds);

/// What is still to be built and run.
struct TuneWork {
  size_t kernel_programs = 0;  // each with the candidates of one kernel
  size_t candidates = 0;       // in them
  size_t programs = 0;         // of the whole model
  double run_seconds = 0;      // as predicted, of one invocation of such a program
};

/// What was learnt of builds so far.
struct BuildTimes {
  double kernel_program = 0;  // seconds, the runs of its candidates with it
  double candidate = 0;       // one more in it
  double program = 0;
};
/// Before anything was built: from builds of this compiler on one machine.
inline constexpr BuildTimes kUsualTimes{2, 0.3, 4};

/// Seconds until the work is done: `runs` times each whole program is run.
double estimated_seconds(const TuneWork& work, const BuildTimes& times, int runs);

/// The time that is left of --budget.
class Budget {
 public:
  /// 0: there is no end.
  explicit Budget(double seconds) : seconds_(seconds) {}
  /// Whether what takes so long fits into it, `spent` seconds after it began, so that the rest still can be done.
  bool allows(double wanted, double rest, double spent) const {
    return seconds_ == 0 || spent + wanted + rest <= seconds_;
  }
  bool is_given() const { return seconds_ > 0; }

 private:
  double seconds_;
};

}  // namespace weftc
