// How steps refer to things, at one point inside the loops around them: buffers and their instances, operands,
// elements of signals, loop variables. The functions of blocks (steps.h) and of loops that are one kernel
// (chunk_kernel.h) are both written in these terms.
#pragma once
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "backend/program_names.h"

namespace weftc {

/// A loop over chunks or micro-batches around the statement.
struct TimeLoop {
  std::string variable;
  int trips;
};

class StepTerms {
 public:
  using Lines = std::vector<std::string>;
  /// Writes the statement that waits for or signals element `at` of a signal (no element: the signal has one),
  /// and only where `condition` holds ("": always).
  using SignalCall =
      std::function<std::string(SignalId, const std::optional<IndexExpr>& at, const std::string& condition)>;

  StepTerms(const Plan& plan, const ProgramNames& names, const std::vector<KernelText>& kernels, Diags& diags)
      : plan_(plan), names_(names), kernels_(kernels), diags_(diags) {}

  const Plan& plan() const { return plan_; }
  const ProgramNames& names() const { return names_; }
  Diags& diags() const { return diags_; }
  /// The loops around the statement, outer first.
  const std::vector<TimeLoop>& times() const { return times_; }

  /// The text of a kernel as a loop over chunks calls it: on a device another function than the one that steps
  /// launch.
  const KernelText& called(KernelId kernel) const;
  /// What a step passes for an argument of a kernel that is no operand.
  std::string argument(const Step& step, const LaunchStep& launch, const KernelText& kernel,
                       const Argument& argument) const;
  /// The handle of a buffer: the instance of this chunk or micro-batch, `first` elements further.
  std::string handle(BufferId buffer, const std::string& first = "") const;
  /// "chunk % 2 * 128": where the instance of this chunk or micro-batch begins; "" where there is one.
  std::string instance_offset(const Buffer& buffer) const;
  /// "r[x]": the address of that instance in the memory of the rank; of rows that threads share, that of the first own
  /// one.
  std::string pointer(BufferId buffer, const std::string& first = "") const;
  /// The variable of a buffer of which each thread has its own.
  std::string own_name(BufferId buffer) const { return "own." + names_.buffers[buffer.index]; }
  /// The buffer of a chain in whose memory this one lies, if it does.
  BufferId replaced(BufferId buffer) const;
  /// "*r[batch] * 4": a length of the request, as the rank knows it; nothing of one that a step makes, and where steps
  /// are issued by a host that does not hold it.
  std::optional<std::string> length(const Length& length, PlaceId place) const;
  /// The address of an operand, which is a weight or a buffer.
  std::string pointer(const Operand& operand) const;
  std::string first_row(const std::string& whole, const Operand& operand) const;
  /// "64", "all_rows * 16", "(past + seq)": a length of the chain around, to multiply with.
  std::string length_factor(const Length& length) const;
  /// How many rows there are along an axis of the loop around: a number, or the variable that has it.
  std::string all_rows(size_t axis) const;
  PlaceId shared_place() const;
  /// The iteration of the loop over one of the time axes that follow the place's own axes in a mesh.
  IndexExpr time_index(PlaceId place, const Mesh& mesh, int axis) const;
  /// The variable of the innermost Loop op of `loops` around the statement.
  static std::string trip_variable(int loops) { return loops > 1 ? "trip" + std::to_string(loops) : "trip"; }
  /// By what random ops count the iterations of these loops: trip_within (ir/trips.h).
  static std::string trip_number(int loops);
  /// The lines in front of a step that wait for signals, and those behind it that signal.
  Lines waits(const Step& step) const { return waits(step, of_rank("wait")); }
  Lines waits(const Step& step, const SignalCall& wait) const;
  Lines raises(const Step& step) const { return raises(step, of_rank("signal")); }
  Lines raises(const Step& step, const SignalCall& raise) const;

 protected:
  const Plan& plan_;
  ProgramNames names_;
  const std::vector<KernelText>& kernels_;
  Diags& diags_;
  bool in_layers_ = false;   // names are those of all layers
  bool in_forward_ = false;  // of a training: in a block of its forward pass
  std::vector<TimeLoop> times_;
  int loops_ = 0;                             // Loops around the statement
  const LoopStep* shared_ = nullptr;          // the Loop around it whose rows threads share
  std::map<uint32_t, std::string> panels_;    // that threads keep in a chain, by kernel
  std::map<uint32_t, KernelText> functions_;  // device: what loops over chunks call, by kernel

 private:
  /// The element of a signal that a step waits for or signals; nothing if the signal has one element.
  std::optional<IndexExpr> index(SignalId signal, Per per, int lag) const;
  /// The iteration of an enclosing loop.
  static IndexExpr time_index(const TimeLoop& time) { return index_variable(time.variable, 0, time.trips - 1); }
  SignalCall of_rank(const std::string& call) const;
};

}  // namespace weftc
