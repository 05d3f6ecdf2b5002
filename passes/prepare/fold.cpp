// Folds one op by its record's reference evaluation, so that a folded value equals that of the reference.
#include "passes/prepare/fold.h"

#include <algorithm>

#include "ir/op_def.h"

namespace weftc {

/// True for an operand whose elements have no effect.
static bool reads_type_only(const Op& op, size_t input) { return op.kind == OpKind::CastLike && input == 1; }

bool is_evaluated(const Graph& graph, OpId id) {
  const Op& op = graph.op(id);
  if (!op_def(op).eval || op.kind == OpKind::RandomUniform || category(op) == Category::Region ||
      category(op) == Category::Collective || category(op) == Category::Source)
    return false;
  return std::all_of(op.outputs.begin(), op.outputs.end(), [&](ValueId v) { return is_static(graph.type(v).shape); });
}

bool is_foldable(const Module&, const Graph& graph, OpId id) {
  const Op& op = graph.op(id);
  if (!is_evaluated(graph, id)) return false;
  if (op.kind == OpKind::Shape || op.kind == OpKind::Size) return is_static(graph.type(op.inputs[0]).shape);
  bool any = false;
  for (size_t i = 0; i < op.inputs.size(); ++i) {
    if (!op.inputs[i] || reads_type_only(op, i)) continue;
    if (graph.producer_op(op.inputs[i]).kind != OpKind::Constant) return false;
    any = true;
  }
  return any;
}

bool widens_to_float(const Graph& graph, const Op& op) {
  if (op.kind != OpKind::Cast || graph.type(op.outputs[0]).dtype != DType::F32) return false;
  const DType from = graph.type(op.inputs[0]).dtype;
  return from == DType::F16 || from == DType::BF16;
}

/// A tensor without elements in place of an operand whose type alone is read (Shape, Size, CastLike).
static Tensor stand_in(const TensorType& type) {
  Tensor t;
  t.dtype = type.dtype;
  t.dims = type.dims();
  return t;
}

void fold_op(Module& module, Graph& graph, OpId id) {
  const Op op = graph.op(id);
  std::vector<Tensor> operands, results(op.outputs.size());
  EvalContext context{op, {}, {}, {}, results, {}, {}, {}, {}, {}};
  operands.reserve(op.inputs.size());
  for (ValueId v : op.inputs) {
    if (!v) {
      context.inputs.push_back(nullptr);
      context.global_input_dims.push_back({});
      continue;
    }
    const Op& source = graph.producer_op(v);
    const bool constant = source.kind == OpKind::Constant;
    operands.push_back(constant ? module.constants.tensor(source.constant("value")) : stand_in(graph.type(v)));
    context.inputs.push_back(&operands.back());
    context.global_input_dims.push_back(operands.back().dims);
  }
  for (ValueId v : op.outputs) {
    context.result_dims.push_back(graph.type(v).dims());
    context.result_dtypes.push_back(graph.type(v).dtype);
    context.global_dims.push_back(graph.type(v).dims());
  }
  op_def(op).eval(context);
  if (context.is_refused) return;  // the program reports it when it runs the op
  replace_by_constants(module, graph, id, results);
}

void replace_by_constants(Module& module, Graph& graph, OpId id, const std::vector<Tensor>& results) {
  const Op op = graph.op(id);
  for (size_t r = 0; r < op.outputs.size(); ++r) {
    if (graph.value(op.outputs[r]).uses.empty()) continue;
    const std::string name = graph.value(op.outputs[r]).name;
    for (ValueId v : op.inputs)
      if (v) module.note_folded(graph, v, name);
    const ConstantId constant = module.constants.add(name, results[r]);
    const OpId made = graph.add({OpKind::Constant,
                                 {},
                                 {graph.type(op.outputs[r])},
                                 {{"value", constant}},
                                 {},
                                 op.place,
                                 name,
                                 op.origins,
                                 op.transform,
                                 {}},
                                id);
    graph.replace_uses(op.outputs[r], graph.result(made));
    graph.rename(op.outputs[r], name + "/folded");
    graph.rename(graph.result(made), name);
  }
  graph.erase(id);
}

}  // namespace weftc
