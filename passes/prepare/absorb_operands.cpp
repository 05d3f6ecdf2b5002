// Turns operands that became constants, and operands that gave shapes, into attributes (ConstantOperand).
//
//   %y = Reshape(%x, %s)  with %s = Constant [8, 64]   ->   %y = Reshape(%x) {shape = [8, 64]}
#include "passes/prepare/absorb_operands.h"

#include <algorithm>
#include <cmath>

#include "ir/op_def.h"

namespace weftc {

namespace {

/// A constant's elements as an attribute of the given type.
AttrValue as_attr(const Tensor& tensor, AttrType type) {
  if (type == AttrType::Int) return tensor.int_at(0);
  if (type == AttrType::Real) return tensor.at(0);
  std::vector<int64_t> ints;
  std::vector<double> reals;
  for (int64_t i = 0; i < tensor.size(); ++i)
    if (type == AttrType::Reals)
      reals.push_back(tensor.at(i));
    else
      ints.push_back(tensor.int_at(i));
  return type == AttrType::Reals ? AttrValue(reals) : AttrValue(ints);
}

/// True if each element lies in the range of an int64, which NaN and infinities do not.
bool are_in_range(const Tensor& tensor) {
  return std::ranges::all_of(tensor.real, [](double x) { return std::abs(x) < 0x1p63; });
}

/// Copies one operand that became a constant into its attribute (ConstantOperand), if that can hold it.
bool absorb(Module& module, Graph& graph, OpId id, const ConstantOperand& operand, Diags& diags) {
  const Op& op = graph.op(id);
  if (operand.input >= static_cast<int>(op.inputs.size()) || !op.inputs[operand.input]) return true;
  const std::optional<Tensor> tensor = OpView(module, graph, op, &diags).known(operand.input);
  const bool is_of_integers = operand.type == AttrType::Int || operand.type == AttrType::Ints;
  if (!tensor || (is_of_integers && !are_in_range(*tensor))) return true;
  const bool single = operand.type == AttrType::Int || operand.type == AttrType::Real;
  if (single && tensor->size() != 1)
    return OpView(module, graph, op, &diags)
        .fail("operand-not-scalar", "operand {} must have one element, not {}", operand.input, tensor->size());
  graph.edit(id).set(operand.attr, as_attr(*tensor, operand.type));
  return true;
}

/// Removes absent operands after the last present one, except for those that the op always has.
void trim_operands(Graph& graph, OpId id) {
  const auto least = static_cast<size_t>(op_def(graph.op(id)).inputs.min);
  while (graph.op(id).inputs.size() > least && !graph.op(id).inputs.back())
    graph.remove_input(id, graph.op(id).inputs.size() - 1);
}

}  // namespace

// An operand may become several attributes: it is taken away when all have been set.
bool absorb_constants(Module& module, Graph& graph, OpId id, Diags& diags) {
  const std::vector<ConstantOperand>& operands = op_def(graph.op(id)).constant_operands;
  for (const ConstantOperand& operand : operands)
    if (!operand.is_canonical && !absorb(module, graph, id, operand, diags)) return false;
  for (const ConstantOperand& operand : operands) {
    const Op& op = graph.op(id);
    const bool is_there = operand.input < static_cast<int>(op.inputs.size()) && op.inputs[operand.input];
    if (!is_there || !op.has(operand.attr)) continue;
    if (graph.producer_op(op.inputs[operand.input]).kind != OpKind::Constant) continue;
    module.note_folded(graph, op.inputs[operand.input], op.name);
    graph.set_input(id, operand.input, {});
  }
  trim_operands(graph, id);
  return true;
}

void drop_shape_operands(Module& module, Graph& graph, OpId id) {
  for (const ConstantOperand& operand : op_def(graph.op(id)).constant_operands) {
    const Op& op = graph.op(id);
    const bool is_there = operand.input < static_cast<int>(op.inputs.size()) && op.inputs[operand.input];
    if (!is_there || !operand.required || !op.has(operand.attr)) continue;
    module.note_folded(graph, op.inputs[operand.input], op.name);
    graph.set_input(id, operand.input, {});
  }
  trim_operands(graph, id);
}

}  // namespace weftc
