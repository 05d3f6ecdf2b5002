// Writes an epilogue. The sum is bound as the root's element, and each view's element is bound to its operand's
// element. The outputs are then pulled as in any other kernel (element.h).
#include "backend/epilogue.h"

#include <algorithm>

#include "ir/op_def.h"

namespace weftc {

bool Epilogue::reach(const IndexList& index) {
  std::optional<std::vector<std::optional<IndexList>>> found = indices_after(context_, root_, index);
  if (found) placed_ = std::move(*found);
  return found.has_value();
}

void Epilogue::write(Elements& elements, const std::string& sum) const {
  elements.bind(root_, *placed_[root_.index], name(sum), elements.scopes.current);
  for (OpId id : body_.order()) {
    const Op& op = body_.op(id);
    if (category(op) != Category::View || !placed_[op.outputs[0].index]) continue;
    const Element element = elements.at(op.inputs[0], *placed_[op.inputs[0].index]);
    elements.bind(op.outputs[0], *placed_[op.outputs[0].index], element.expr, element.scope);
  }
  std::vector<Element> values;
  for (const Graph::Output& o : body_.outputs()) values.push_back(elements.at(o.value, *placed_[o.value.index]));
  for (size_t o = 0; o < values.size(); ++o) elements.store(o, *placed_[body_.outputs()[o].value.index], values[o]);
}

}  // namespace weftc
