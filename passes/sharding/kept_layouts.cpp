#include "passes/sharding/kept_layouts.h"

#include "ir/base/text.h"
#include "ir/op_def.h"

namespace weftc {

KeptLayouts::KeptLayouts(const Module& module, const Schedule& schedule) : module_(module) {
  Diags reported_by_apply_layouts;
  requests_ = bind_requests(module, schedule, reported_by_apply_layouts);
}

std::optional<Layout> KeptLayouts::requested(const LayoutRequest& request, ValueId value,
                                             const Layout& arriving) const {
  const Graph& graph = module_.graph;
  TensorType type = graph.type(value);
  type.layout = arriving;
  Diags none_fits;
  return requested_layout(request, type, module_.mesh(graph, graph.producer_op(value).place), none_fits);
}

/// True if the demands on a value's slices hold in a layout.
bool KeptLayouts::is_enough(ValueId value, const Layout& layout) const {
  if (!demanded_.contains(value)) return true;
  const Mesh mesh = module_.mesh(module_.graph, module_.graph.producer_op(value).place);
  for (int axis = 0; axis < static_cast<int>(mesh.size()); ++axis)
    if (mesh[static_cast<size_t>(axis)].size > 1 && !layout[axis].is(AxisState::Kind::S)) return false;
  return true;
}

bool KeptLayouts::allows(ValueId value, const Layout& layout) const {
  if (!is_enough(value, layout)) return false;
  const auto request = requests_.results.find(value);
  if (request == requests_.results.end()) return true;
  const bool is_source = category(module_.graph.producer_op(value)) == Category::Source;
  return requested(request->second, value, is_source ? Layout{} : layout) == layout;
}

bool KeptLayouts::allows_use(ValueId value, const Layout& layout) const {
  if (!is_enough(value, layout)) return false;
  const auto request = requests_.uses.find(value);
  return request == requests_.uses.end() || requested(request->second, value, layout) == layout;
}

std::optional<Layout> KeptLayouts::of(ValueId value) const {
  const auto request = requests_.results.find(value);
  if (request == requests_.results.end()) return {};
  return requested(request->second, value, Layout{});
}

std::optional<Layout> KeptLayouts::use_of(ValueId value) const {
  const auto request = requests_.uses.find(value);
  if (request == requests_.uses.end()) return {};
  return requested(request->second, value, of(value).value_or(Layout{}));
}

std::string KeptLayouts::mark(ValueId value) const {
  std::string text;
  const auto add = [&](const std::map<ValueId, LayoutRequest>& requests) {
    if (const auto request = requests.find(value); request != requests.end())
      text += format("|{}:{}", request->second.axes->front().loc.line, request->second.axes->front().loc.column);
  };
  add(requests_.results), add(requests_.uses);
  return text;
}

}  // namespace weftc
