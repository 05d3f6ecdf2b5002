// How much of the machine others use while something is measured.
#pragma once

namespace weftc {

/// Measures from its making on.
class MachineLoad {
 public:
  MachineLoad();
  /// The share of all cores that processes of others used, those that this one has waited for not counted; 0 where the
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
