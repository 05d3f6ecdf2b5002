// Builds a kernel that fusion only considers, so that the rules of strategies can judge it before it exists.
#include "passes/fusion/trial_kernel.h"

#include <set>
#include <unordered_map>

#include "ir/kernel/kernel_body.h"
#include "passes/fusion/kernel_values.h"

namespace weftc {

namespace {

/// Copies ops into the body of a new kernel, operands first.
class BodyCopy {
 public:
  BodyCopy(const Graph& graph, const std::vector<OpId>& members, const std::function<bool(OpId)>& in_memory)
      : graph_(graph), members_(members.begin(), members.end()), in_memory_(in_memory) {
    body_.time_axes = graph.time_axes;
    for (OpId id : members)
      for (ValueId v : graph.op(id).inputs)
        if (v) load(v);
    for (OpId id : members) {
      for (ValueId v : graph.op(id).inputs)
        if (v) bring(v);
      copy(id);
    }
    const ValueId result = graph.result(members.back());
    body_.add_output(values_.at(result), graph.value(result).name);
  }
  Graph take() { return std::move(body_); }

 private:
  /// True for ops that the kernel computes for itself while loading.
  bool comes_along(OpId id) const {
    const Op& op = graph_.op(id);
    if (in_memory_(id)) return false;
    return is_load_view(op) || is_literal(graph_, op) || is_pattern(op);
  }

  /// Adds an Input for each value in memory on which `value` depends.
  void load(ValueId value) {
    const OpId id = graph_.producer(value);
    if (values_.contains(value) || members_.contains(id)) return;
    if (!comes_along(id)) return add(graph_.op(id), OpKind::Input, {value});
    for (ValueId v : graph_.op(id).inputs) load(v);
  }

  /// Copies the views and literals that a value needs, operands first.
  void bring(ValueId value) {
    const OpId id = graph_.producer(value);
    if (values_.contains(value) || members_.contains(id)) return;
    for (ValueId v : graph_.op(id).inputs) bring(v);
    copy(id);
  }

  void copy(OpId id) { add(graph_.op(id), graph_.op(id).kind, graph_.op(id).outputs); }

  void add(const Op& op, OpKind kind, const std::vector<ValueId>& results) {
    const bool is_input = kind == OpKind::Input;
    NewOp made{kind, {}, {}, is_input ? Attrs{} : op.attrs, {}, op.place, op.name, {}, {}, {}};
    for (ValueId v : op.inputs)
      if (!is_input) made.inputs.push_back(v ? values_.at(v) : ValueId{});
    for (ValueId v : results) {
      made.results.push_back(graph_.type(v));
      made.result_names.push_back(graph_.value(v).name);
    }
    const OpId id = body_.add(std::move(made));
    for (size_t r = 0; r < results.size(); ++r) values_[results[r]] = body_.op(id).outputs[r];
  }

  const Graph& graph_;
  const std::set<OpId> members_;
  const std::function<bool(OpId)>& in_memory_;
  Graph body_;
  std::unordered_map<ValueId, ValueId> values_;
};

}  // namespace

Kernel trial_kernel(const Module& module, const Graph& graph, const std::vector<OpId>& members,
                    const std::function<bool(OpId)>& in_memory) {
  Kernel kernel;
  kernel.body = BodyCopy(graph, members, in_memory).take();
  kernel.place = graph.op(members.front()).place;
  kernel.mesh = module.mesh(graph, kernel.place);
  for (ValueId v : kernel.body.inputs())
    kernel.parameters.push_back({kernel.body.value(v).name, kernel.body.type(v), {}, false, false, {}});
  for (const Graph::Output& output : kernel.body.outputs())
    kernel.parameters.push_back({output.name, kernel.body.type(output.value), {}, false, false, {}});
  kernel.extents = run_extents_of(module, kernel.body, kernel.mesh);
  return kernel;
}

}  // namespace weftc
