// A Plan as text, for tests and --dump-dir. Deterministic.
#pragma once
#include <string>

#include "ir/plan.h"

namespace weftc {

std::string print_plan(const Plan& plan);
/// One step (and those inside it), indented by `indent` levels.
std::string step_text(const Plan& plan, const Step& step, int indent = 0);
/// The action of a step, without the steps inside: "launch h_c_fc", "all-reduce", "copy".
std::string step_kind(const Plan& plan, const Step& step);
/// How a kernel is computed when launched, and in the one kernel of a loop over chunks if that differs.
std::string strategies_text(const Kernel& kernel);
/// "s.yaml:9:20" if the schedule pins the kernel's strategy; else "".
std::string pinned_at(const Kernel& kernel);

}  // namespace weftc
