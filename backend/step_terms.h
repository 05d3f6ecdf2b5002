// Expressions for the objects of steps at one point inside the enclosing loops: buffers and their instances, operands,
// elements of signals, loop variables. Functions of blocks (steps.h) and of loops that are one kernel (chunk_kernel.h)
// both use them.
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
  /// Writes the statement that waits for or raises element `at` of a signal (no element: the signal has one), only if
  /// `condition` holds ("": always).
  using SignalCall =
      std::function<std::string(SignalId, const std::optional<IndexExpr>& at, const std::string& condition)>;

  StepTerms(const Plan& plan, const ProgramNames& names, const std::vector<KernelText>& kernels, Diags& diags)
      : plan_(plan), names_(names), kernels_(kernels), diags_(diags) {}

  const Plan& plan() const { return plan_; }
  const ProgramNames& names() const { return names_; }
  Diags& diags() const { return diags_; }
  /// The loops around the statement, outer first.
  const std::vector<TimeLoop>& times() const { return times_; }

  /// The text of a kernel for calls by a loop over chunks: on a device another function than the one that steps launch.
  const KernelText& called(KernelId kernel) const;
  /// The expression that a step passes for an argument of a kernel that is not an operand.
  std::string argument(const Step& step, const LaunchStep& launch, const KernelText& kernel,
                       const Argument& argument) const;
  /// The handle of a buffer: the instance of this chunk or micro-batch, `first` elements further.
  std::string handle(BufferId buffer, const std::string& first = "") const;
  /// "chunk % 2 * 128": start of the instance of this chunk or micro-batch; "" if there is only one.
  std::string instance_offset(const Buffer& buffer) const;
  /// "r[x]": the address of that instance in the rank's memory. With shared rows it is the address of the thread's
  /// first own row.
  std::string pointer(BufferId buffer, const std::string& first = "") const;
  /// The variable of a buffer that each thread has separately.
  std::string own_name(BufferId buffer) const { return "own." + names_.buffers[buffer.index]; }
  /// The buffer of a chain whose memory this one shares, if any.
  BufferId replaced(BufferId buffer) const;
  /// "*r[batch] * 4": a length of the request, as the rank reads it. Nothing for a length that a step computes, or if
  /// the host that issues steps does not hold it.
  std::optional<std::string> length(const Length& length, PlaceId place) const;
  /// The address of an operand, which is a weight or a buffer.
  std::string pointer(const Operand& operand) const;
  std::string first_row(const std::string& whole, const Operand& operand) const;
  /// "64", "all_rows * 16", "(past + seq)": a length of the enclosing chain, as a factor.
  std::string length_factor(const Length& length) const;
  /// The number of rows along an axis of the enclosing loop: a number, or its variable.
  std::string all_rows(size_t axis) const;
  PlaceId shared_place() const;
  /// The iteration of the loop over one of the time axes that follow the place's own axes in a mesh.
  IndexExpr time_index(PlaceId place, const Mesh& mesh, int axis) const;
  /// The variable of the innermost Loop op of `loops` around the statement.
  static std::string trip_variable(int loops) { return loops > 1 ? "trip" + std::to_string(loops) : "trip"; }
  /// The number by which random ops count the iterations of these loops: trip_within (ir/trips.h).
  static std::string trip_number(int loops);
  /// The lines before a step that wait for signals, and those after it that raise them.
  Lines waits(const Step& step) const { return waits(step, of_rank("wait")); }
  Lines waits(const Step& step, const SignalCall& wait) const;
  Lines raises(const Step& step) const { return raises(step, of_rank("signal")); }
  Lines raises(const Step& step, const SignalCall& raise) const;

 protected:
  const Plan& plan_;
  ProgramNames names_;
  const std::vector<KernelText>& kernels_;
  Diags& diags_;
  bool in_layers_ = false;   // names are those for all layers
  bool in_forward_ = false;  // in a training: in a block of its forward pass
  std::vector<TimeLoop> times_;
  int loops_ = 0;                             // Loops around the statement
  const LoopStep* shared_ = nullptr;          // the Loop around it whose rows threads share
  std::map<uint32_t, std::string> panels_;    // kept by threads in a chain, by kernel
  std::map<uint32_t, KernelText> functions_;  // device: functions for loops over chunks, by kernel

 private:
  /// The element of a signal that a step waits for or signals; nothing if the signal has one element.
  std::optional<IndexExpr> index(SignalId signal, Per per, int lag) const;
  /// The iteration of an enclosing loop.
  static IndexExpr time_index(const TimeLoop& time) { return index_variable(time.variable, 0, time.trips - 1); }
  SignalCall of_rank(const std::string& call) const;
};

}  // namespace weftc
