// Visits the names of lengths. Most graphs have no NameLength: then nothing is visited.
#include "ir/named_lengths.h"

#include <algorithm>

namespace weftc {

void for_each_name(const Shape& shape, const std::function<void(const std::string&)>& f) {
  for (const Extent& extent : shape)
    if (extent.is_run_time()) for_each_name(*extent.length, [&](const LengthSymbolPtr& symbol) { f(symbol->text); });
}

void for_each_name(const Graph& graph, const Op& op, const std::function<void(const std::string&)>& f) {
  for (ValueId v : op.outputs) for_each_name(graph.type(v).shape, f);
  if (op.kind == OpKind::LengthOf) for_each_name(op.text("length"), f);
  for (const Graph& region : op.regions)
    for (OpId id = region.first(); id; id = region.next(id)) for_each_name(region, region.op(id), f);
}

LengthHolders::LengthHolders(const Graph& graph) : graph_(graph) {
  for (OpId id = graph.first(); id; id = graph.next(id)) {
    const Op& op = graph.op(id);
    if (op.kind == OpKind::NameLength) holders_.emplace(op.text("name"), op.outputs[0]);
    if (op.kind != OpKind::Fused) continue;  // a kernel that computes the number returns it as a result
    const Graph& body = op.regions[0];
    for (size_t o = 0; o < body.outputs().size(); ++o)
      if (const Op& made = body.producer_op(body.outputs()[o].value); made.kind == OpKind::NameLength)
        holders_.emplace(made.text("name"), op.outputs[o]);
  }
}

void LengthHolders::for_each(const Shape& shape, const std::function<void(ValueId)>& f) const {
  if (holders_.empty()) return;
  for_each_name(shape, [&](const std::string& name) {
    if (const auto at = holders_.find(name); at != holders_.end()) f(at->second);
  });
}

void LengthHolders::for_each(const Op& op, const std::function<void(ValueId)>& f) const {
  if (holders_.empty()) return;
  const auto look = [&](const std::string& name) {
    const auto at = holders_.find(name);
    if (at == holders_.end() || std::find(op.outputs.begin(), op.outputs.end(), at->second) != op.outputs.end()) return;
    f(at->second);
  };
  for_each_name(graph_, op, look);
  for (ValueId v : op.inputs)
    if (v) for_each_name(graph_.type(v).shape, look);
}

bool LengthHolders::holds_length(ValueId value) const {
  return std::any_of(holders_.begin(), holders_.end(), [&](const auto& holder) { return holder.second == value; });
}

ValueId LengthHolders::find(const std::string& name) const {
  const auto at = holders_.find(name);
  return at == holders_.end() ? ValueId{} : at->second;
}

}  // namespace weftc
