// Names are looked up from the special to the general: a kernel's own name, then the nodes that kernels compute and the
// values that they write, then the ops and values inside them. What matches nothing, several kernels under one plain
// name, or a kernel that is pinned twice is an error.
#include "passes/plan/kernel_pins.h"

#include <algorithm>

#include "ir/plan_walk.h"
#include "passes/select.h"

namespace weftc {

namespace {

/// Kernels by a name: their own, or that of a node or value that they compute.
using Named = std::map<std::string, std::set<size_t>>;

Named kernels_by_node(const Plan& plan) {
  Named named;
  for (const Block& block : plan.blocks)
    for_each_step(block.steps, [&](const Step& step) {
      const auto* launch = std::get_if<LaunchStep>(&step.what);
      if (!launch) return;
      named[step.name].insert(launch->kernel.index);
      for (const OriginId origin : step.origins) named[plan.origins[origin.index].name].insert(launch->kernel.index);
      for (const Access& access : step.accesses)
        if (access.write) named[plan.buffer(access.buffer).name].insert(launch->kernel.index);
    });
  return named;
}

/// The kernels that write the next value of a state.
std::set<size_t> kernels_of_states(const Plan& plan) {
  std::set<BufferId> next;
  for (const StateSlot& state : plan.states)
    if (const Port* port = find_port(plan.outputs, state.output)) next.insert(port->buffer);
  std::set<size_t> kernels;
  for (const Block& block : plan.blocks)
    for_each_step(block.steps, [&](const Step& step) {
      const auto* launch = std::get_if<LaunchStep>(&step.what);
      const bool writes = std::any_of(step.accesses.begin(), step.accesses.end(), [&](const Access& access) {
        return access.write && next.contains(access.buffer);
      });
      if (launch && writes) kernels.insert(launch->kernel.index);
    });
  return kernels;
}

/// A kernel that has other launches beside that of a state may be copied for the latter once it has its strategy, which
/// the copy shares.
Named kernels_by_name(const Plan& plan) {
  Named named;
  for (size_t k = 0; k < plan.kernels.size(); ++k) named[plan.kernels[k].name].insert(k);
  for (const size_t k : kernels_of_states(plan))
    if (plan.kernels[k].users.size() > 1) named.emplace(in_place_name(plan.kernels[k].name), std::set<size_t>{k});
  return named;
}

std::set<size_t> matching(const Named& named, const std::string& text) {
  std::set<size_t> kernels;
  for (const auto& [name, at] : named)
    if (matches_pattern(text, name)) kernels.insert(at.begin(), at.end());
  return kernels;
}

std::string names_text(const Plan& plan, const std::set<size_t>& kernels) {
  std::vector<std::string> names;
  for (const size_t k : kernels) names.push_back("'" + plan.kernels[k].name + "'");
  return join(names, ", ");
}

class PinResolver {
 public:
  explicit PinResolver(const PlanDraft& draft)
      : plan_(draft.plan),
        diags_(draft.diags),
        by_name_(kernels_by_name(plan_)),
        by_node_(kernels_by_node(plan_)),
        inside_(draft.inner_names) {}

  std::set<size_t> kernels_of(const KernelPin& pin) const {
    std::set<size_t> kernels = matching(by_name_, pin.name);
    if (!kernels.empty()) return kernels;
    kernels = matching(by_node_, pin.name);
    if (kernels.empty()) kernels = matching(inside_, pin.name);
    const bool is_pattern = pin.name.find_first_of("*{") != std::string::npos;
    if (kernels.empty())
      report_unmatched(pin);
    else if (kernels.size() > 1 && !is_pattern)
      diags_.error("kernel-ambiguous", pin.loc, "several kernels compute '{}': {}; name one of them",
                   printable(pin.name), names_text(plan_, kernels));
    return kernels;
  }

 private:
  void report_unmatched(const KernelPin& pin) const {
    std::vector<std::string> known;
    for (const Named* named : {&by_name_, &by_node_, &inside_})
      for (const auto& entry : *named) known.push_back(entry.first);
    diags_.error("kernel-unmatched", pin.loc, "'{}' is no kernel, and no node or value that one computes{}",
                 printable(pin.name), did_you_mean(pin.name, known));
  }

  const Plan& plan_;
  Diags& diags_;
  const Named by_name_, by_node_;
  const Named& inside_;
};

}  // namespace

std::vector<const KernelPin*> pins_of_kernels(const PlanDraft& draft) {
  const Plan& plan = draft.plan;
  std::vector<const KernelPin*> of(plan.kernels.size(), nullptr);
  if (draft.pins.empty()) return of;
  const PinResolver resolver(draft);
  for (const KernelPin& pin : draft.pins)
    for (const size_t k : resolver.kernels_of(pin)) {
      if (of[k])
        draft.diags.error("kernel-pinned-twice", pin.loc, "'{}' means kernel '{}', which '{}' means too",
                          printable(pin.name), plan.kernels[k].name, printable(of[k]->name));
      of[k] = &pin;
    }
  return of;
}

}  // namespace weftc
