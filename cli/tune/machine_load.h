// The load by other processes during a measurement.
#pragma once

namespace weftc {

/// Measures from its construction on.
class MachineLoad {
 public:
  MachineLoad();
  /// The fraction of all cores that other processes used, except children that this process has waited for; 0 if the
  /// system does not tell.
  double of_others() const;

 private:
  struct Seconds {
    double all = 0, own = 0, idle = 0;
  };
  static Seconds now();
  const Seconds start_;
};

}  // namespace weftc
