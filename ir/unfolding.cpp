// Reads the operands of an op on sequences and adds the untyped ops that replace it.
#include "ir/unfolding.h"

#include "ir/builder.h"

namespace weftc {

Unfolding::Unfolding(Module& module, Graph& graph, OpId id, const UnfoldedValues& values, Diags& diags)
    : module_(module),
      graph_(graph),
      id_(id),
      values_(values),
      copy_(graph.op(id)),
      view_(module, graph, copy_, &diags) {}

Unfolded Unfolding::operand(int input) const {
  if (!view_.has(input)) return Unfolded::nothing();
  const ValueId value = copy_.inputs[static_cast<size_t>(input)];
  const auto known = values_.find(value);
  return known == values_.end() ? Unfolded::tensor(value) : known->second;
}

std::optional<std::vector<ValueId>> Unfolding::sequence(int input) const {
  Unfolded value = operand(input);
  if (value.kind == Unfolded::Kind::Sequence) return std::move(value.tensors);
  view_.fail("sequence-operand", "operand {} of {} must be a sequence, but it is {}", input, op_def(copy_).name,
             value.kind == Unfolded::Kind::Tensor ? "a tensor" : "an optional without an element");
  return {};
}

std::optional<ValueId> Unfolding::tensor(int input) const {
  const Unfolded value = operand(input);
  if (value.kind == Unfolded::Kind::Tensor) return value.tensors[0];
  view_.fail("tensor-operand", "operand {} of {} must be a tensor, but it is {}", input, op_def(copy_).name,
             value.kind == Unfolded::Kind::Sequence ? "a sequence" : "an optional without an element");
  return {};
}

std::optional<int64_t> Unfolding::known_integer(int input) const {
  const std::optional<Tensor> tensor = view_.known(input);
  if (!tensor || tensor->is_real() || tensor->size() != 1) return {};
  return tensor->int_at(0);
}

std::vector<ValueId> Unfolding::add(OpKind kind, std::vector<ValueId> inputs, Attrs attrs, int results) {
  NewOp made = copy_of(copy_);
  made.kind = kind;
  made.inputs = std::move(inputs);
  made.attrs = std::move(attrs);
  made.results.resize(static_cast<size_t>(results));
  made.name = copy_.name + "/" + op_def(kind).name;
  return graph_.op(graph_.add(std::move(made), id_)).outputs;
}

ValueId Unfolding::add(OpKind kind, std::vector<ValueId> inputs, Attrs attrs) {
  return add(kind, std::move(inputs), std::move(attrs), 1)[0];
}

ValueId Unfolding::constant(const Tensor& tensor) {
  const ConstantId constant = module_.constants.add(copy_.name + "/Constant", tensor);
  return add(OpKind::Constant, {}, {{"value", constant}});
}

std::vector<ValueId> Unfolding::add_body(const std::vector<ValueId>& arguments) {
  return inline_region(graph_, copy_.regions[0], arguments, id_);
}

}  // namespace weftc
