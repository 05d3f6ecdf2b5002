// What a statement of a step refers to, at one point of the loops around it: buffers, operands, signals and their
// elements, variables of loops. Statements of a block (steps.h) and of a loop that is one kernel (chunk_kernel.h) are
// written in these terms.
#pragma once
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "backend/program_names.h"

namespace weftc {

/// A loop over chunks or micro-batches.
struct TimeLoop {
  std::string variable;
  int trips;
};

class StepTerms {
 public:
  using Lines = std::vector<std::string>;
  /// The statement that waits for or raises element `at` of a signal, where the condition holds ("": always).
  using SignalCall =
      std::function<std::string(SignalId, const std::optional<IndexExpr>& at, const std::string& condition)>;

  StepTerms(const Plan& plan, const ProgramNames& names, const std::vector<KernelText>& kernels, Diags& diags)
      : plan_(plan), names_(names), kernels_(kernels), diags_(diags) {}

  const Plan& plan() const { return plan_; }
  const ProgramNames& names() const { return names_; }
  Diags& diags() const { return diags_; }
  /// The loops around the statement, outer first.
  const std::vector<TimeLoop>& times() const { return times_; }

  /// What the kernel of a loop over chunks calls for a kernel of its body.
  const KernelText& called(KernelId kernel) const;
  std::string argument(const LaunchStep& launch, const KernelText& kernel, const Argument& argument) const;
  /// The handle of a buffer: the instance of this chunk or micro-batch, `first` elements further.
  std::string handle(BufferId buffer, const std::string& first = "") const;
  /// "chunk % 2 * 128": where the instance of this chunk or micro-batch begins; "" where there is one.
  std::string instance_offset(const Buffer& buffer) const;
  std::string pointer(BufferId buffer, const std::string& first = "") const {
    return "r[" + handle(buffer, first) + "]";
  }
  std::string pointer(const Operand& operand) const;
  /// The iteration of the loop over a time axis of a mesh.
  IndexExpr time_index(PlaceId place, const Mesh& mesh, int axis) const;
  /// The variable of the innermost Loop.
  std::string trip_variable() const { return loops_ > 1 ? "trip" + std::to_string(loops_) : "trip"; }
  Lines waits(const Step& step) const { return waits(step, of_rank("wait")); }
  Lines waits(const Step& step, const SignalCall& wait) const;
  Lines raises(const Step& step) const { return raises(step, of_rank("signal")); }
  Lines raises(const Step& step, const SignalCall& raise) const;

 protected:
  const Plan& plan_;
  const ProgramNames& names_;
  const std::vector<KernelText>& kernels_;
  Diags& diags_;
  std::vector<TimeLoop> times_;
  int loops_ = 0;                             // Loops around the statement
  std::map<uint32_t, KernelText> functions_;  // device: what loops over chunks call, by kernel

 private:
  /// The element of a signal that a wait or raise means; nothing where it has only one.
  std::optional<IndexExpr> index(SignalId signal, Per per, int lag) const;
  /// The iteration of an enclosing loop.
  static IndexExpr time_index(const TimeLoop& time) { return index_variable(time.variable, 0, time.trips - 1); }
  SignalCall of_rank(const std::string& call) const;
};

}  // namespace weftc
