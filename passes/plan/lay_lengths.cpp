// The step lay-lengths of planning: how tensors of run-time length lie in memory.
//
//   f32[batch <= 8, seq <= 64, 768]    dense: element (b, s, c) at (b * seq + s) * 768 + c, so that rows follow each
//                                      other whatever the lengths are, and [batch * seq, 768] is the same memory
//   by bounds                          the same at (b * 64 + s) * 768 + c
//
// Memory is laid out by bounds where a step moves elements by strides that are constants of the program (transfers,
// most exchanges of slices, windows that peers read). So is that of states: the contents of a cache must not move when
// the cache grows.
#include <algorithm>

#include "ir/exchange_types.h"
#include "ir/value_memory.h"
#include "passes/plan/plan_parts.h"

namespace weftc {

namespace {

bool has_lengths(const TensorType& type) { return !is_static(type.shape); }

/// A chunk's part of a buffer that holds all chunks is taken by strides too.
bool exchanges_by_strides(const CollectiveStep& step) {
  return !step.from_whole_over.empty() || !step.to_whole_over.empty() ||
         strides_over_lengths(step.kind, step.from_type, step.to_type, step.axes);
}

class LengthLayer {
 public:
  explicit LengthLayer(PlanDraft& draft) : draft_(draft), plan_(draft.plan), parent_(plan_.buffers.size()) {
    for (size_t b = 0; b < parent_.size(); ++b) parent_[b] = b;
    by_bounds_.resize(parent_.size());
    bound_.resize(plan_.kernels.size());
  }

  void run() {
    for (const StateSlot& state : plan_.states) {
      for (const Port& port : plan_.inputs)
        if (port.name == state.input) lay_by_bounds(port.buffer);
      for (const Port& port : plan_.outputs)
        if (port.name == state.output) lay_by_bounds(port.buffer);
    }
    for (const TransferTable& table : plan_.transfers) lay_by_bounds(table.from), lay_by_bounds(table.to);
    for (const Block& block : plan_.blocks) for_each_step(block.steps, [&](const Step& step) { read(step); });
    apply();
    for (const Block& block : plan_.blocks) for_each_step(block.steps, [&](const Step& step) { check(step); });
    for (const Port& port : plan_.inputs) check(port.buffer, port.type, port.name);
    for (const Port& port : plan_.outputs) check(port.buffer, port.type, port.name);
  }

 private:
  size_t find(size_t b) {
    while (parent_[b] != b) b = parent_[b] = parent_[parent_[b]];
    return b;
  }
  void lay_by_bounds(BufferId id) {
    if (id) by_bounds_[find(id.index)] = true;
  }
  /// Both lie alike: one is copied into the other, or one kernel is launched for both.
  void join(BufferId a, BufferId b) {
    const size_t from = find(a.index), to = find(b.index);
    if (from == to) return;
    parent_[from] = to;
    by_bounds_[to] = by_bounds_[to] || by_bounds_[from];
  }

  void read(const Step& step) {
    if (const auto* copy = std::get_if<CopyStep>(&step.what)) join(copy->from, copy->to);
    if (const auto* exchange = std::get_if<CollectiveStep>(&step.what)) {
      join(exchange->from, exchange->to);
      if (exchanges_by_strides(*exchange)) lay_by_bounds(exchange->from);
    }
    const auto* launch = std::get_if<LaunchStep>(&step.what);
    if (!launch) return;
    std::vector<BufferId>& bound = bound_[launch->kernel.index];
    bound.resize(launch->operands.size());
    for (size_t f = 0; f < launch->operands.size(); ++f) {
      const BufferId id = launch->operands[f].buffer;
      if (id && bound[f]) join(bound[f], id);
      if (id) bound[f] = id;
      if (plan_.kernel(launch->kernel).parameters[f].window) lay_by_bounds(id);
    }
  }

  void apply() {
    for (size_t b = 0; b < parent_.size(); ++b)
      plan_.buffers[b].storage.by_bounds = by_bounds_[find(b)] && has_lengths(plan_.buffers[b].type);
    for (size_t k = 0; k < bound_.size(); ++k)
      for (size_t f = 0; f < bound_[k].size(); ++f) {
        Parameter& parameter = plan_.kernels[k].parameters[f];
        if (bound_[k][f])
          parameter.storage.by_bounds = by_bounds_[find(bound_[k][f].index)] && has_lengths(parameter.type);
      }
  }

  void check(const Step& step) {
    if (const auto* copy = std::get_if<CopyStep>(&step.what)) check(copy->to, plan_.buffer(copy->from).type, step.name);
    if (const auto* exchange = std::get_if<CollectiveStep>(&step.what)) {
      check(exchange->from, exchange->from_type, step.name);
      check(exchange->to, exchange->to_type, step.name);
    }
    const auto* launch = std::get_if<LaunchStep>(&step.what);
    for (size_t f = 0; launch && f < launch->operands.size(); ++f)
      check(launch->operands[f].buffer, plan_.kernel(launch->kernel).parameters[f].type, step.name);
  }

  /// A Reshape outside of kernels is the same memory in another shape.
  void check(BufferId id, const TensorType& type, const std::string& user) {
    if (!id || !plan_.buffer(id).storage.by_bounds) return;
    const TensorType& memory = plan_.buffer(id).type;
    if (is_same_by_bounds(memory.shape, type.shape)) return;
    draft_.diags.error("run-time-reshape-unsupported", Loc::in_file(draft_.module.file),
                       "'{}' is sent, exchanged in slices or kept as a state as {}, and '{}' has it as {}: its "
                       "run-time lengths would have to be moved; pin one with --dim",
                       plan_.buffer(id).name, shape_text(memory.shape), user, shape_text(type.shape));
  }

  PlanDraft& draft_;
  Plan& plan_;
  std::vector<size_t> parent_;  // joined buffers, by BufferId
  std::vector<bool> by_bounds_;
  std::vector<std::vector<BufferId>> bound_;  // by KernelId and parameter: a buffer that it is bound to
};

}  // namespace

void lay_lengths(PlanDraft& draft) { LengthLayer(draft).run(); }

}  // namespace weftc
