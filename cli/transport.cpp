// Refuses plans that MPI ranks cannot run: a kernel over the peer table reads memory of other machines.
#include "cli/transport.h"

namespace weftc {

namespace {

/// True if the kernel's body has a collective.
bool reads_peers(const Kernel& kernel) {
  for (const OpId id : kernel.body.order()) {
    const Op& op = kernel.body.op(id);
    if (category(op) == Category::Collective && op.kind != OpKind::ShardSlice) return true;
  }
  return false;
}

/// Walks all steps and reports each that needs its peers' memory.
class Refusals {
 public:
  Refusals(const Plan& plan, Diags& diags) : plan_(plan), diags_(diags) {}

  void walk(const std::vector<Step>& steps) {
    for (const Step& step : steps) {
      if (const auto* launch = std::get_if<LaunchStep>(&step.what)) {
        if (reads_peers(plan_.kernel(launch->kernel))) refuse(step);
      } else if (const auto* loop = std::get_if<ForStep>(&step.what)) {
        loop->mechanism == Mechanism::Fused ? refuse(step) : walk(loop->body);
      } else if (const auto* branch = std::get_if<IfStep>(&step.what)) {
        walk(branch->then_body);
        walk(branch->else_body);
      } else if (const auto* trips = std::get_if<LoopStep>(&step.what)) {
        walk(trips->body);
      }
    }
  }

 private:
  void refuse(const Step& step) {
    const std::string transform = step.transform.empty() ? "a collective inside a kernel" : step.transform;
    diags_.error(
        "mpi-fused-unsupported", step.transform_loc,
        "step '{}' ({}) reads the memory of other ranks inside a kernel, which --transport mpi cannot: leave the "
        "collective out of the fusion",
        printable(step.name), printable(transform));
  }

  const Plan& plan_;
  Diags& diags_;
};

}  // namespace

bool check_mpi_plan(const Plan& plan, Diags& diags) {
  Refusals refusals(plan, diags);
  for (const Block& block : plan.blocks) refusals.walk(block.steps);
  return diags.ok();
}

}  // namespace weftc
