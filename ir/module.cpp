#include "ir/module.h"

#include <algorithm>

namespace weft {

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

Loc Module::loc(const Op& op) const {
  if (!op.origins.empty()) return origins[op.origins.front().index].loc;
  if (op.transform) return transforms[op.transform.index].loc;
  return Loc::in_file(file);
}

}  // namespace weft
