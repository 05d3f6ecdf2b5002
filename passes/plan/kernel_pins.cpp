// Looks up names from the special to the general: nodes of that name, and kernels whose own name no node has; then
// values that kernels write; then ops and values inside kernels. A kernel's own name is made from a node's and may read
// like another node's (`a.b` gives `a_b`), therefore nodes come first. A name that matches nothing, a name that may
// mean each of several kernels, and a kernel that is pinned twice are errors.
#include "passes/plan/kernel_pins.h"

#include <algorithm>

#include "ir/op_def.h"
#include "ir/plan_walk.h"
#include "passes/select.h"

namespace weftc {

namespace {

/// Kernels by a name: their own, or that of a node or value that they compute.
using Named = std::map<std::string, std::set<size_t>>;

/// Origins that only the exchanges of a kernel have: one that ends with the sum of a product does not compute it.
std::set<OriginId> exchanged_only(const Kernel& kernel) {
  std::set<OriginId> exchanged, computed;
  for (OpId id = kernel.body.first(); id; id = kernel.body.next(id)) {
    const Op& op = kernel.body.op(id);
    (category(op) == Category::Collective ? exchanged : computed).insert(op.origins.begin(), op.origins.end());
  }
  for (const OriginId origin : computed) exchanged.erase(origin);
  return exchanged;
}

Named kernels_by_node(const Plan& plan) {
  Named named;
  for (const Block& block : plan.blocks)
    for_each_step(block.steps, [&](const Step& step) {
      const auto* launch = std::get_if<LaunchStep>(&step.what);
      if (!launch) return;
      const std::set<OriginId> exchanged = exchanged_only(plan.kernel(launch->kernel));
      for (const OriginId origin : step.origins)
        if (!exchanged.contains(origin)) named[plan.origins[origin.index].name].insert(launch->kernel.index);
    });
  return named;
}

/// Launches are named after their results, like values.
Named kernels_by_value(const Plan& plan) {
  Named named;
  for (const Block& block : plan.blocks)
    for_each_step(block.steps, [&](const Step& step) {
      const auto* launch = std::get_if<LaunchStep>(&step.what);
      if (!launch) return;
      named[step.name].insert(launch->kernel.index);
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

/// Nodes, and kernels with a name that no node has. A kernel with other launches besides that of a state may be copied
/// for the latter once it has its strategy, which the copy shares.
Named kernels_by_name(const Plan& plan) {
  Named named = kernels_by_node(plan);
  for (size_t k = 0; k < plan.kernels.size(); ++k) named.emplace(plan.kernels[k].name, std::set<size_t>{k});
  for (const size_t k : kernels_of_states(plan))
    if (plan.kernels[k].users.size() > 1) named.emplace(in_place_name(plan.kernels[k].name), std::set<size_t>{k});
  return named;
}

bool is_pattern(const std::string& name) { return name.find_first_of("*{") != std::string::npos; }

/// Resolves the names of a schedule in a Plan.
class KernelNames {
 public:
  explicit KernelNames(const PlanDraft& draft)
      : plan_(draft.plan), tables_{kernels_by_name(draft.plan), kernels_by_value(draft.plan), draft.inner_names} {}

  /// The kernels of each name that a text matches, in the first table that has one.
  std::vector<std::set<size_t>> matches(const std::string& text) const {
    for (const Named& table : tables_)
      if (const auto found = matches_in(table, text); !found.empty()) return found;
    return {};
  }

  /// The kernel's own name, or else an op inside it, if it means nothing else; "": there is no such name.
  std::string name_of(size_t k) const {
    const Kernel& kernel = plan_.kernels[k];
    if (means_only(kernel.name, k)) return kernel.name;
    for (OpId id = kernel.body.first(); id; id = kernel.body.next(id))
      if (means_only(kernel.body.op(id).name, k)) return kernel.body.op(id).name;
    return "";
  }

  std::vector<std::string> all() const {
    std::vector<std::string> names;
    for (const Named& table : tables_)
      for (const auto& entry : table) names.push_back(entry.first);
    return names;
  }

 private:
  static std::vector<std::set<size_t>> matches_in(const Named& table, const std::string& text) {
    std::vector<std::set<size_t>> found;
    if (!is_pattern(text)) {
      if (const auto at = table.find(text); at != table.end()) found.push_back(at->second);
      return found;
    }
    for (const auto& [name, kernels] : table)
      if (NamePattern(text).match(name)) found.push_back(kernels);
    return found;
  }

  bool means_only(const std::string& name, size_t k) const {
    return !is_pattern(name) && matches(name) == std::vector<std::set<size_t>>{{k}};
  }

  const Plan& plan_;
  const std::vector<Named> tables_;
};

/// A kernel with its ops, and its name in a schedule if that differs: "'soft' (ReduceMax; as 'soft/ReduceMax')".
std::string kernel_text(const KernelNames& names, const Kernel& kernel, size_t k) {
  constexpr size_t kMostOps = 4;
  std::vector<std::string> ops;
  for (OpId id = kernel.body.first(); id; id = kernel.body.next(id))
    if (category(kernel.body.op(id)) != Category::Source) ops.emplace_back(op_def(kernel.body.op(id)).name);
  if (ops.size() > kMostOps) {
    ops.resize(kMostOps);
    ops.emplace_back("...");
  }
  const std::string name = names.name_of(k);
  const std::string as = name.empty() || name == kernel.name ? "" : "; as '" + printable(name) + "'";
  return format("'{}' ({}{})", kernel.name, join(ops, ", "), as);
}

class PinResolver {
 public:
  PinResolver(const PlanDraft& draft, const IsLegalPin& is_legal)
      : plan_(draft.plan), diags_(draft.diags), left_out_(draft.module.left_out), names_(draft), is_legal_(is_legal) {}

  std::set<size_t> kernels_of(const KernelPin& pin) const {
    std::set<size_t> kernels;
    const std::vector<std::set<size_t>> matches = names_.matches(pin.name);
    if (matches.empty()) report_unmatched(pin);
    for (const std::set<size_t>& match : matches) {
      const std::set<size_t> meant = meant_of(pin, match);
      kernels.insert(meant.begin(), meant.end());
    }
    return kernels;
  }

 private:
  /// If several kernels compute one node, the only one for which the strategy is legal. A pattern means all kernels if
  /// there is no single legal one.
  std::set<size_t> meant_of(const KernelPin& pin, const std::set<size_t>& kernels) const {
    if (kernels.size() == 1) return kernels;
    std::set<size_t> legal;
    for (const size_t k : kernels)
      if (is_legal_(pin, k)) legal.insert(k);
    if (legal.size() == 1) return legal;
    if (is_pattern(pin.name)) return kernels;
    report_ambiguous(pin, kernels);
    return {};
  }

  void report_ambiguous(const KernelPin& pin, const std::set<size_t>& kernels) const {
    std::vector<std::string> texts;
    for (const size_t k : kernels) texts.push_back(kernel_text(names_, plan_.kernels[k], k));
    diags_.error("kernel-ambiguous", pin.loc, "several kernels compute '{}': {}; name one of them", printable(pin.name),
                 join(texts, ", "));
  }

  /// Whether a transform that has nothing to do on one rank would have made the kernel.
  bool is_left_out(const KernelPin& pin) const {
    return std::any_of(left_out_.begin(), left_out_.end(), [&](const std::string& made) {
      return NamePattern(pin.name).match(made) || NamePattern(made).match(pin.name);
    });
  }

  void report_unmatched(const KernelPin& pin) const {
    if (is_left_out(pin)) {
      diags_.warning("kernel-one-rank", pin.loc,
                     "on one rank there is no '{}', because the step that makes it is left out: this pin is too",
                     printable(pin.name));
      return;
    }
    diags_.error("kernel-unmatched", pin.loc, "'{}' is no kernel, and no node or value that one computes{}",
                 printable(pin.name), did_you_mean(pin.name, names_.all()));
  }

  const Plan& plan_;
  Diags& diags_;
  const std::set<std::string>& left_out_;
  const KernelNames names_;
  const IsLegalPin& is_legal_;
};

}  // namespace

std::vector<const KernelPin*> pins_of_kernels(const PlanDraft& draft, const IsLegalPin& is_legal) {
  const Plan& plan = draft.plan;
  std::vector<const KernelPin*> of(plan.kernels.size(), nullptr);
  if (draft.pins.empty()) return of;
  const PinResolver resolver(draft, is_legal);
  for (const KernelPin& pin : draft.pins)
    for (const size_t k : resolver.kernels_of(pin)) {
      if (of[k])
        draft.diags.error("kernel-pinned-twice", pin.loc, "'{}' means kernel '{}', which '{}' means too",
                          printable(pin.name), plan.kernels[k].name, printable(of[k]->name));
      of[k] = &pin;
    }
  return of;
}

void name_kernels_for_pins(PlanDraft& draft) {
  const KernelNames names(draft);
  for (size_t k = 0; k < draft.plan.kernels.size(); ++k) draft.plan.kernels[k].pin_name = names.name_of(k);
}

}  // namespace weftc
