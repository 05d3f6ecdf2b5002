// The table of a Transfer: boxes of elements from the ranks that hold them to the ranks that need them. Layouts
// on both sides may differ in any way, so a box is found by the indices that both sides hold, dimension by
// dimension:
//
//   f32[8] S(0,4) on ranks 0, 1  to  R on rank 2:    rank 0: 4 elements at 0 to 0,  rank 1: 4 elements at 0 to 4
#include <algorithm>

#include "ir/base/check.h"
#include "passes/plan/plan_parts.h"

namespace weftc {

namespace {

/// `extent` elements, a step of `source` and of `target` elements apart.
struct Side {
  int64_t extent, source, target;
};
/// Where a dimension's common indices lie in both local tensors: nested steps, outer first, from one start.
struct Run {
  int64_t source, target;
  std::vector<Side> steps;
};

/// One rank's local part of a type.
struct Part {
  int rank;
  std::vector<std::vector<int64_t>> held;  // global indices by dim, ascending
  Dims strides;
};

/// The global indices that a rank holds of each dimension.
Part part_of(const TensorType& type, const Mesh& mesh, const Coordinates& at, int rank) {
  Part part{rank, {}, strides_of(buffer_dims(type, mesh))};
  for (int d = 0; d < type.ndim(); ++d)
    part.held.push_back(held_indices(type.shape[d].bound, digits_of(type.layout, d, mesh), at));
  return part;
}

/// Indices that both hold, as runs that follow one another in both.
std::vector<Run> common_runs(const std::vector<int64_t>& source, const std::vector<int64_t>& target) {
  std::vector<Run> runs;
  size_t s = 0;
  for (size_t t = 0; t < target.size(); ++t) {
    while (s < source.size() && source[s] < target[t]) ++s;
    if (s == source.size() || source[s] != target[t]) continue;
    const int64_t at = static_cast<int64_t>(s), to = static_cast<int64_t>(t);
    if (!runs.empty() && runs.back().source + runs.back().steps[0].extent == at &&
        runs.back().target + runs.back().steps[0].extent == to)
      ++runs.back().steps[0].extent;
    else
      runs.push_back({at, to, {{1, 1, 1}}});
  }
  return runs;
}

/// Equal runs at equal distances are one with an outer step.
std::vector<Run> join_runs(std::vector<Run> runs) {
  if (runs.size() < 2) return runs;
  const int64_t source = runs[1].source - runs[0].source, target = runs[1].target - runs[0].target;
  for (size_t i = 1; i < runs.size(); ++i)
    if (runs[i].steps[0].extent != runs[0].steps[0].extent || runs[i].source - runs[i - 1].source != source ||
        runs[i].target - runs[i - 1].target != target)
      return runs;
  Run joined = runs[0];
  joined.steps.insert(joined.steps.begin(), {static_cast<int64_t>(runs.size()), source, target});
  return {joined};
}

/// Drops extents of 1 and joins neighbouring dims that are one step.
void simplify(Message& m) {
  Dims extents, sources, targets;
  for (size_t d = 0; d < m.extents.size(); ++d) {
    if (m.extents[d] == 1) continue;
    const bool joins = !extents.empty() && sources.back() == m.source_strides[d] * m.extents[d] &&
                       targets.back() == m.target_strides[d] * m.extents[d];
    if (joins) {
      extents.back() *= m.extents[d];
      sources.back() = m.source_strides[d], targets.back() = m.target_strides[d];
    } else {
      extents.push_back(m.extents[d]), sources.push_back(m.source_strides[d]), targets.push_back(m.target_strides[d]);
    }
  }
  if (extents.empty()) extents = {1}, sources = {1}, targets = {1};
  m.extents = extents, m.source_strides = sources, m.target_strides = targets;
}

/// All boxes from one rank to another: the product of the runs of each dim.
void add_boxes(const Part& from, const Part& to, std::vector<Message>& messages) {
  std::vector<Message> boxes{{from.rank, to.rank, 0, 0, {}, {}, {}}};
  for (size_t d = 0; d < from.held.size(); ++d) {
    std::vector<Message> next;
    for (const Run& run : join_runs(common_runs(from.held[d], to.held[d])))
      for (Message box : boxes) {
        box.source += run.source * from.strides[d];
        box.target += run.target * to.strides[d];
        for (const Side& side : run.steps) {
          box.extents.push_back(side.extent);
          box.source_strides.push_back(side.source * from.strides[d]);
          box.target_strides.push_back(side.target * to.strides[d]);
        }
        next.push_back(std::move(box));
      }
    boxes = std::move(next);
  }
  for (Message& box : boxes) simplify(box), messages.push_back(std::move(box));
}

/// The coordinates in the first micro-batch: every micro-batch is cut alike.
Coordinates with_time(Coordinates at, size_t axes) {
  at.resize(axes, 0);  // every micro-batch is cut alike
  return at;
}

}  // namespace

std::vector<Message> transfer_messages(const Module& module, const Graph& graph, PlaceId from_place,
                                       const TensorType& from, PlaceId to_place, const TensorType& to) {
  const Place &source = module.place(from_place), &target = module.place(to_place);
  const Mesh from_mesh = module.mesh(graph, from_place), to_mesh = module.mesh(graph, to_place);
  // Ranks that hold the same elements, by the coordinates on the axes that slice.
  std::map<Coordinates, std::vector<Part>> holders;
  for (int i = 0; i < source.size(); ++i) {
    const Coordinates at = coordinates_of(source.mesh, i);
    Coordinates key = at;
    for (size_t a = 0; a < key.size(); ++a)
      if (!from.layout[static_cast<int>(a)].is(AxisState::Kind::S)) key[a] = 0;
    holders[key].push_back(part_of(from, from_mesh, with_time(at, from_mesh.size()), source.ranks[i]));
  }
  std::vector<Message> messages;
  for (int i = 0; i < target.size(); ++i) {
    const Part wanted =
        part_of(to, to_mesh, with_time(coordinates_of(target.mesh, i), to_mesh.size()), target.ranks[i]);
    for (const auto& entry : holders) {
      const std::vector<Part>& parts = entry.second;
      const auto own = std::find_if(parts.begin(), parts.end(), [&](const Part& p) { return p.rank == wanted.rank; });
      add_boxes(own != parts.end() ? *own : parts[static_cast<size_t>(i) % parts.size()], wanted, messages);
    }
  }
  return messages;
}

}  // namespace weftc
