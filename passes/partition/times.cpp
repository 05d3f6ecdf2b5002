// Times at which memory can be short.
#include "passes/partition/times.h"

#include <algorithm>
#include <unordered_map>

namespace weftc {

namespace {

/// How the usage of nodes changes between two times, by node and choice.
using UsageChanges = std::unordered_map<int, std::vector<int64_t>>;

struct LeaseEvent {
  int node, sign;
  const std::vector<int64_t>* usage;
};

/// Leases that begin or end, by time.
std::vector<std::vector<LeaseEvent>> events_of(size_t times, const std::vector<std::vector<UsageLease>*>& leases) {
  std::vector<std::vector<LeaseEvent>> events(times + 1);
  for (size_t i = 0; i < leases.size(); ++i)
    for (const UsageLease& lease : *leases[i]) {
      events[lease.first].push_back({static_cast<int>(i), 1, &lease.usage});
      events[lease.last].push_back({static_cast<int>(i), -1, &lease.usage});
    }
  return events;
}

void apply(const std::vector<LeaseEvent>& events, UsageChanges& changes) {
  for (const LeaseEvent& event : events) {
    std::vector<int64_t>& change = changes[event.node];
    change.resize(event.usage->size(), 0);
    for (size_t x = 0; x < change.size(); ++x) change[x] += event.sign * (*event.usage)[x];
  }
}

/// By how much the usage can rise, and fall, whatever is chosen.
std::pair<int64_t, int64_t> most_change(const UsageChanges& changes) {
  int64_t rise = 0, fall = 0;
  for (const auto& [node, change] : changes) {
    const auto [least, most] = std::minmax_element(change.begin(), change.end());
    rise += *most;
    fall -= *least;
  }
  return {rise, fall};
}

/// By time: can all nodes together take more memory than there is?
std::vector<char> times_that_can_be_short(const std::vector<int64_t>& room,
                                          const std::vector<std::vector<UsageLease>*>& leases) {
  std::vector<int64_t> change(room.size() + 1, 0);
  for (const std::vector<UsageLease>* const of_node : leases)
    for (const UsageLease& lease : *of_node) {
      const int64_t most = *std::max_element(lease.usage.begin(), lease.usage.end());
      change[lease.first] += most;
      change[lease.last] -= most;
    }
  std::vector<char> result(room.size());
  int64_t usage = 0;
  for (size_t t = 0; t < result.size(); ++t) result[t] = (usage += change[t]) > room[t];
  return result;
}

}  // namespace

bool takes_memory(const PartitionProblem::Node& node) {
  return node.first < node.last && std::any_of(node.usage.begin(), node.usage.end(), [](int64_t u) { return u > 0; });
}

TimePoints::TimePoints(const PartitionProblem& problem) {
  std::vector<std::pair<int64_t, bool>> events;  // ends come before begins of the same time
  for (const PartitionProblem::Node& node : problem.nodes) {
    if (!takes_memory(node)) continue;
    events.push_back({node.first, true});
    events.push_back({node.last, false});
  }
  std::sort(events.begin(), events.end());
  bool has_begun = false;
  for (const auto& [time, is_begin] : events) {
    if (!is_begin && has_begun) points_.push_back(time - 1);
    has_begun = is_begin;
  }
}

int TimePoints::number(int64_t time) const {
  return static_cast<int>(std::lower_bound(points_.begin(), points_.end(), time) - points_.begin());
}

std::vector<char> times_that_bind(const std::vector<int64_t>& room,
                                  const std::vector<std::vector<UsageLease>*>& leases) {
  std::vector<char> kept = times_that_can_be_short(room, leases);
  const std::vector<std::vector<LeaseEvent>> events = events_of(room.size(), leases);
  UsageChanges changes;  // since `last`
  int last = -1;
  for (size_t t = 0; t < kept.size(); ++t) {
    apply(events[t], changes);
    if (!kept[t]) continue;
    if (last >= 0) {
      const auto [rise, fall] = most_change(changes);
      const int64_t more_room = room[t] - room[last];
      kept[t] = rise > more_room;
      if (!kept[t]) continue;
      if (fall <= -more_room) kept[last] = 0;
    }
    last = static_cast<int>(t);
    changes.clear();
  }
  return kept;
}

}  // namespace weftc
