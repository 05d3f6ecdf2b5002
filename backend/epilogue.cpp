#include "backend/epilogue.h"

#include <algorithm>

#include "ir/op_def.h"

namespace weftc {

ValueId contraction_of(const Graph& body) {
  ValueId found;
  for (OpId id : body.order()) {
    const Op& op = body.op(id);
    if (category(op) == Category::Pointwise || category(op) == Category::View || category(op) == Category::Source)
      continue;
    if (found || category(op) != Category::Contraction) return {};
    found = op.outputs[0];
  }
  return found;
}

bool Epilogue::reach(const IndexList& index) {
  placed_.assign(body_.value_capacity(), {});
  placed_[root_.index] = index;
  for (OpId id : body_.order()) {
    const Op& op = body_.op(id);
    if (op.outputs.size() != 1 || op.inputs.empty() || placed_[op.outputs[0].index]) continue;
    std::optional<IndexList>& to = placed_[op.outputs[0].index];
    const Dims dims = context_.dims(op.outputs[0]);
    if (category(op) == Category::Pointwise) {
      for (ValueId input : op.inputs)
        if (!to && placed_[input.index] && context_.dims(input) == dims) to = placed_[input.index];
    } else if (category(op) == Category::View && placed_[op.inputs[0].index]) {
      const IndexList& from = *placed_[op.inputs[0].index];
      if (op.kind == OpKind::Reshape) to = unravel(linear_index(from, context_.dims(op.inputs[0])), dims);
      if (op.kind != OpKind::Transpose) continue;
      IndexList moved(from.size());
      for (size_t d = 0; d < from.size(); ++d) moved[d] = from[static_cast<size_t>(op.ints("perm")[d])];
      to = moved;
    }
  }
  return std::all_of(body_.outputs().begin(), body_.outputs().end(),
                     [&](const Graph::Output& o) { return placed_[o.value.index].has_value(); });
}

void Epilogue::write(Elements& elements, const std::string& sum) const {
  elements.bind(root_, *placed_[root_.index], sum, elements.scopes.current);
  for (OpId id : body_.order()) {
    const Op& op = body_.op(id);
    if (category(op) != Category::View || !placed_[op.outputs[0].index]) continue;
    const Element element = elements.at(op.inputs[0], *placed_[op.inputs[0].index]);
    elements.bind(op.outputs[0], *placed_[op.outputs[0].index], element.text, element.scope);
  }
  std::vector<Element> values;
  for (const Graph::Output& o : body_.outputs()) values.push_back(elements.at(o.value, *placed_[o.value.index]));
  for (size_t o = 0; o < values.size(); ++o) elements.store(o, *placed_[body_.outputs()[o].value.index], values[o]);
}

}  // namespace weftc
