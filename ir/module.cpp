// Queries of a module besides its graph: meshes, positions for messages, and what became of folded names.
#include "ir/module.h"

#include <algorithm>

#include "ir/base/contains.h"

namespace weftc {

int Place::index_of(int rank) const {
  const auto at = std::find(ranks.begin(), ranks.end(), rank);
  return at == ranks.end() ? -1 : static_cast<int>(at - ranks.begin());
}

int Module::world() const {
  int largest = 0;
  for (const Place& place : places)
    for (int rank : place.ranks) largest = std::max(largest, rank);
  return largest + 1;
}

Mesh Module::mesh(const Graph& in, PlaceId place) const {
  Mesh mesh = place ? places[place.index].mesh : Mesh{};
  mesh.insert(mesh.end(), in.time_axes.begin(), in.time_axes.end());
  return mesh;
}

void Module::note_folded(const Graph& in, ValueId value, const std::string& into) {
  if (in.producer_op(value).kind == OpKind::Constant) note_replaced(in, value, into);
}

void Module::note_replaced(const Graph& in, ValueId value, const std::string& into) {
  const Op& op = in.producer_op(value);
  std::vector<std::string> names{in.value(value).name, op.name};
  for (OriginId origin : op.origins) names.push_back(origins[origin.index].name);
  for (const std::string& name : names) {
    std::vector<std::string>& known = folded[name];
    if (name != into && !contains(known, into)) known.push_back(into);
  }
}

OriginId Module::forward_node(OriginId origin) const {
  while (origins[origin.index].of) origin = origins[origin.index].of;
  return origin;
}

bool Module::is_backward(const Op& op) const {
  return std::any_of(op.origins.begin(), op.origins.end(),
                     [&](OriginId o) { return origins[o.index].phase == Phase::Backward; });
}

bool Module::is_late(const Op& op) const {
  if (!training || !training->recomputes) return false;
  return std::any_of(op.origins.begin(), op.origins.end(),
                     [&](OriginId o) { return origins[o.index].phase != Phase::Forward; });
}

Loc Module::loc(const Op& op) const {
  if (!op.origins.empty()) return origins[op.origins.front().index].loc;
  if (op.transform) return transforms[op.transform.index].loc;
  return Loc::in_file(file);
}

}  // namespace weftc
