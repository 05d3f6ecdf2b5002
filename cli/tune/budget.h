// The time limit of tuning, and estimates of its time.
#pragma once
#include <optional>
#include <string>

namespace weftc {

/// Seconds of "90s", "5m", "1.5h"; nullopt for any other text, and for zero.
std::optional<double> parse_duration(const std::string& text);
/// "12 s", "3 min", "1.5 h".
std::string duration_text(double seconds);

/// The work that is still to be built and run.
struct TuneWork {
  size_t kernel_programs = 0;  // each has the candidates of one kernel
  size_t candidates = 0;       // the candidates in them
  size_t programs = 0;         // of the whole model
  double run_seconds = 0;      // predicted, for one invocation of such a program
};

/// Measured times of builds so far.
struct BuildTimes {
  double kernel_program = 0;  // seconds, including the runs of its candidates
  double candidate = 0;       // each further candidate in it
  double program = 0;
};
/// Initial values, from builds of this compiler on one machine.
inline constexpr BuildTimes kUsualTimes{2, 0.3, 4};

/// Seconds until the work is done. Each whole program is run `runs` times.
double estimated_seconds(const TuneWork& work, const BuildTimes& times, int runs);

/// The time that is left of --budget.
class Budget {
 public:
  /// 0: no limit.
  explicit Budget(double seconds) : seconds_(seconds) {}
  /// Whether work of `wanted` seconds fits, `spent` seconds after the begin, so that the rest can still be done.
  bool allows(double wanted, double rest, double spent) const {
    return seconds_ == 0 || spent + wanted + rest <= seconds_;
  }
  bool is_given() const { return seconds_ > 0; }

 private:
  double seconds_;
};

}  // namespace weftc
