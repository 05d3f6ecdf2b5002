// Puts a Loop whose body is element-wise into a Fused op, which becomes one kernel over all steps: each element goes
// through all of them, and carried values stay in registers.
//
//   y, ys = Loop(T, , x, zeros, a) { v, ys -> f(v, a[t]), ys with v at t }
//     ->  y, ys = Fused(x, a) { y, ys = Loop(T, , x, a) { v -> f(v, a[t]), v } }
//
// Collected values are written row by row, so the initial value of their buffer is not needed. Other loops stay as they
// are, steps around kernels; a remark gives the reason.
#include <algorithm>
#include <map>

#include "passes/fusion/kernel_values.h"
#include "passes/fusion/pointwise_loop.h"
#include "passes/passes.h"

namespace weftc {

namespace {

/// Writes the kernel of one loop.
class LoopFuser {
 public:
  LoopFuser(Graph& graph, OpId id, const PointwiseLoop& found)
      : graph_(graph), loop_(graph.op(id)), id_(id), old_(loop_.regions[0]), found_(found) {
    body_.time_axes = region_.time_axes = graph.time_axes;
  }

  void run() {
    made_ = copy_of(loop_);
    made_.inputs = {inside(loop_.inputs[0]), {}};
    add_parameters();
    copy_ops();
    add_outputs();
    made_.regions.push_back(std::move(region_));
    const OpId inner = body_.add(std::move(made_));
    for (ValueId v : body_.op(inner).outputs) body_.add_output(v, body_.value(v).name);
    add_kernel();
  }

 private:
  /// True if the kernel makes the value itself: a literal, or a view of one.
  bool is_made_inside(ValueId v) const {
    const Op& op = graph_.producer_op(v);
    if (is_literal(graph_, op) || op.kind == OpKind::LengthOf) return true;
    return is_load_view(op) && op.outputs.size() == 1 && op.inputs.size() == 1 && is_made_inside(op.inputs[0]);
  }

  /// The kernel's own value for one of the graph around it.
  ValueId inside(ValueId outer) {
    const auto known = inside_.find(outer);
    if (known != inside_.end()) return known->second;
    const Op& op = graph_.producer_op(outer);
    const bool is_own = is_made_inside(outer);
    NewOp made = is_own ? copy_of(op) : NewOp{};
    if (is_own) {
      for (ValueId v : op.inputs) made.inputs.push_back(inside(v));
    } else {
      made.kind = OpKind::Input;
      made.name = graph_.value(outer).name;
      made.origins = op.origins;
      operands_.push_back(outer);
    }
    made.place = loop_.place;
    made.results = {graph_.type(outer)};
    made.result_names = {graph_.value(outer).name};
    return inside_[outer] = body_.result(body_.add(std::move(made)));
  }

  /// A parameter of the loop's new body in place of a value of the old one.
  void add_parameter(ValueId old) {
    NewOp made = copy_of(old_.producer_op(old));
    made.kind = OpKind::Input;
    made.attrs = {};
    made.results = {old_.type(old)};
    made.result_names = {old_.value(old).name};
    now_[old] = region_.result(region_.add(std::move(made)));
  }

  /// The step and its condition, carried values, captured values, and constants of several elements, which a kernel
  /// reads from memory.
  void add_parameters() {
    const size_t carried = found_.collected.size();
    for (size_t p = 0; p < old_.inputs().size(); ++p) {
      const bool is_carried = p >= 2 && p < 2 + carried;
      if (is_carried && found_.collected[p - 2]) continue;
      add_parameter(old_.inputs()[p]);
      if (p >= 2) made_.inputs.push_back(inside(loop_.inputs[p]));
    }
    for (OpId id : old_.order()) {
      const Op& op = old_.op(id);
      if (op.kind != OpKind::Constant || is_literal(old_, op)) continue;
      NewOp outside = copy_of(op);
      outside.results = {old_.type(op.outputs[0])};
      outside.result_names = {old_.value(op.outputs[0]).name};
      add_parameter(op.outputs[0]);
      made_.inputs.push_back(inside(graph_.result(graph_.add(std::move(outside), id_))));
    }
  }

  void copy_ops() {
    for (OpId id : old_.order()) {
      const Op& op = old_.op(id);
      if (now_.contains(op.outputs[0]) || op.kind == OpKind::Input || op.kind == OpKind::ScatterND) continue;
      NewOp made = copy_of(op);
      for (ValueId v : op.inputs) made.inputs.push_back(v ? now_.at(v) : ValueId{});
      for (ValueId v : op.outputs) {
        made.results.push_back(old_.type(v));
        made.result_names.push_back(old_.value(v).name);
      }
      const OpId fresh = region_.add(std::move(made));
      for (size_t r = 0; r < op.outputs.size(); ++r) now_[op.outputs[r]] = region_.op(fresh).outputs[r];
      for (OriginId origin : op.origins) origins_.push_back(origin);
    }
  }

  /// Carried values first, then collected ones, as in the results of a Loop.
  void add_outputs() {
    const auto& outputs = old_.outputs();
    region_.add_output(now_.at(outputs[0].value), outputs[0].name);
    size_t carried = 0;
    for (const bool collects : {false, true})
      for (size_t i = 0; i < found_.collected.size(); ++i) {
        if (found_.collected[i] != collects) continue;
        const ValueId next = outputs[1 + i].value;
        region_.add_output(now_.at(collects ? old_.producer_op(next).inputs[2] : next), outputs[1 + i].name);
        made_.results.push_back(graph_.type(loop_.outputs[i]));
        made_.result_names.push_back(graph_.value(loop_.outputs[i]).name);
        results_.push_back(loop_.outputs[i]);
        carried += !collects;
      }
    made_.attrs = {{"carried", static_cast<int64_t>(carried)}};
  }

  /// The Fused op in the loop's place.
  void add_kernel() {
    NewOp fused = copy_of(loop_);
    fused.kind = OpKind::Fused;
    fused.attrs = {};
    fused.name += "/steps";
    fused.origins.insert(fused.origins.end(), origins_.begin(), origins_.end());
    std::sort(fused.origins.begin(), fused.origins.end());
    fused.origins.erase(std::unique(fused.origins.begin(), fused.origins.end()), fused.origins.end());
    fused.inputs = operands_;
    for (ValueId v : results_) fused.results.push_back(graph_.type(v));
    fused.regions.push_back(std::move(body_));
    const OpId fresh = graph_.add(std::move(fused), id_);
    for (size_t r = 0; r < results_.size(); ++r) {
      const std::string name = graph_.value(results_[r]).name;
      const ValueId value = graph_.op(fresh).outputs[r];
      graph_.rename(results_[r], name + "/loop");
      graph_.rename(value, name);
      graph_.replace_uses(results_[r], value);
    }
    graph_.erase(id_);
  }

  Graph& graph_;
  const Op loop_;
  const OpId id_;
  const Graph& old_;
  const PointwiseLoop& found_;
  Graph body_, region_;
  NewOp made_{};  // the loop inside
  std::map<ValueId, ValueId> inside_, now_;
  std::vector<ValueId> operands_, results_;
  std::vector<OriginId> origins_;
};

void fuse_in(Module& module, Graph& graph) {
  for (OpId id : graph.order()) {
    Op& op = graph.edit(id);
    if (op.kind == OpKind::Fused) continue;
    for (Graph& region : op.regions) fuse_in(module, region);
    if (op.kind != OpKind::Loop) continue;
    std::string why;
    if (const std::optional<PointwiseLoop> found = pointwise_loop(module, graph, id, why))
      LoopFuser(graph, id, *found).run();
    else
      module.remarks.push_back("the loop '" + graph.op(id).name + "' is a kernel or more a step: " + why);
  }
}

}  // namespace

void fuse_loops(Module& module, const Env&) { fuse_in(module, module.graph); }

}  // namespace weftc
