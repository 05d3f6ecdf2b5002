// Times by NCCL's model (nccl_model.h), or by the measured curves of the level that joins all ranks of a group.
#include "passes/cost/machine.h"

#include <algorithm>
#include <cstdlib>
#include <map>

#include "passes/cost/nccl_model.h"

namespace weftc {

namespace {

/// Seconds on a curve: constant before its first point, linear between points, and after the last point extrapolated
/// from the last two.
double on_curve(const std::vector<TimeCurve::Point>& points, double bytes) {
  if (points.size() == 1 || bytes <= points.front().bytes) return points.front().seconds;
  size_t next = 1;
  while (next + 1 < points.size() && points[next].bytes < bytes) ++next;
  const TimeCurve::Point &a = points[next - 1], &b = points[next];
  return a.seconds + (bytes - a.bytes) * (b.seconds - a.seconds) / (b.bytes - a.bytes);
}

/// Between two measured numbers of ranks on the line between their curves, beyond all of them on the nearest.
double between_curves(const std::vector<const TimeCurve*>& curves, int ranks, double bytes) {
  const TimeCurve *fewer = nullptr, *more = nullptr;
  for (const TimeCurve* curve : curves) {
    if (curve->ranks <= ranks && (!fewer || curve->ranks > fewer->ranks)) fewer = curve;
    if (curve->ranks >= ranks && (!more || curve->ranks < more->ranks)) more = curve;
  }
  if (!fewer || !more || fewer == more) return on_curve((fewer ? fewer : more)->points, bytes);
  const double part = static_cast<double>(ranks - fewer->ranks) / (more->ranks - fewer->ranks);
  return (1 - part) * on_curve(fewer->points, bytes) + part * on_curve(more->points, bytes);
}

std::vector<const TimeCurve*> curves_of(const NetworkLevel& level, OpKind kind) {
  std::vector<const TimeCurve*> found;
  for (const TimeCurve& curve : level.curves)
    if (curve.kind == kind) found.push_back(&curve);
  return found;
}

/// A kind that was not measured takes as long as an all-reduce of as many bytes.
double seconds_on_level(const NetworkLevel& level, OpKind kind, int ranks, double bytes) {
  std::vector<const TimeCurve*> curves = curves_of(level, kind);
  if (curves.empty()) curves = curves_of(level, OpKind::AllReduce);
  return curves.empty() ? level.latency + bytes / level.bandwidth : between_curves(curves, ranks, bytes);
}

bool is_exchange_kind(OpKind kind) {
  constexpr OpKind kKinds[] = {OpKind::AllReduce, OpKind::ReduceScatter, OpKind::AllGather, OpKind::AllToAll,
                               OpKind::Broadcast, OpKind::Reduce,        OpKind::Transfer};
  return std::ranges::find(kKinds, kind) != std::end(kKinds);
}

}  // namespace

RankGroup group_of(const Machine& machine, const std::vector<int>& ranks) {
  RankGroup group{static_cast<int>(ranks.size()), {}};
  for (const NetworkLevel& level : machine.levels) {
    std::map<int, int> in_unit;
    for (const int rank : ranks) ++in_unit[rank / level.ranks];
    int most = 0;
    for (const auto& [unit, count] : in_unit) most = std::max(most, count);
    group.within.push_back(most);
  }
  return group;
}

/// The positions that differ from the first one on `axes` only.
static std::vector<int> joined_positions(const Mesh& mesh, const std::vector<int>& axes) {
  std::vector<int> positions{0};
  for (const int axis : axes) {
    Coordinates one(mesh.size(), 0);
    one[static_cast<size_t>(axis)] = 1;
    const int stride = index_of(mesh, one);
    const size_t known = positions.size();
    for (int at = 1; at < mesh[static_cast<size_t>(axis)].size; ++at)
      for (size_t p = 0; p < known; ++p) positions.push_back(positions[p] + at * stride);
  }
  return positions;
}

RankGroup group_of(const Machine& machine, const Mesh& mesh, const std::vector<int>& axes) {
  return group_of(machine, joined_positions(mesh, axes));
}

RankGroup group_of(const Machine& machine, const Place& place, const std::vector<int>& axes) {
  std::vector<int> ranks = joined_positions(place.mesh, axes);
  for (int& rank : ranks) rank = place.ranks[static_cast<size_t>(rank)];
  return group_of(machine, ranks);
}

double collective_seconds(const Machine& machine, OpKind kind, int64_t before, int64_t after, const RankGroup& group) {
  if (group.ranks < 2 || !is_exchange_kind(kind)) return 0;
  if (machine.uses_nccl) return nccl_seconds(machine, kind, before, after, group);
  const auto bytes = static_cast<double>(bytes_sent(kind, before, after, group.ranks));
  for (size_t l = 0; l < machine.levels.size(); ++l)
    if (group.within[l] == group.ranks || l + 1 == machine.levels.size())
      return seconds_on_level(machine.levels[l], kind, group.ranks, bytes);
  return machine.ceilings.latency + bytes / machine.ceilings.link;
}

int64_t bytes_sent(OpKind kind, int64_t before, int64_t after, int ranks) {
  switch (kind) {
    case OpKind::AllReduce:
      return 2 * before * (ranks - 1) / ranks;
    case OpKind::ReduceScatter:
    case OpKind::AllToAll:
      return before * (ranks - 1) / ranks;
    case OpKind::AllGather:
      return after * (ranks - 1) / ranks;
    case OpKind::Broadcast:  // of the group's mean: one rank sends or gets what all hold
      return after * (ranks - 1) / ranks;
    case OpKind::Reduce:
      return before * (ranks - 1) / ranks;
    case OpKind::Transfer:
      return after;
    default:
      return 0;
  }
}

}  // namespace weftc
