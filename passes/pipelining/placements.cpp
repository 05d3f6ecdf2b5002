// Places are compared as sets of devices: a place of several devices is one of the pipeline all the same.
#include "passes/pipelining/placements.h"

#include <algorithm>

#include "ir/base/text.h"

namespace weftc {

namespace {

/// reads[a][b]: stage b reads stage a, directly or through others.
std::vector<std::vector<bool>> reads_of_stages(const StagedPipeline& pipeline) {
  const std::vector<std::vector<bool>> before = precedence_of(pipeline.problem);
  const std::vector<StageBlocks> stages = blocks_by_stage(pipeline);
  std::vector<std::vector<bool>> reads(stages.size(), std::vector<bool>(stages.size(), false));
  for (size_t a = 0; a < stages.size(); ++a)
    for (size_t b = 0; b < stages.size(); ++b)
      reads[a][b] = before[as_index(stages[a].forward)][as_index(stages[b].forward)];
  return reads;
}

/// Checks placements; each function returns the reason why one is wrong, or "".
class PlacementChecks {
 public:
  PlacementChecks(const StagedPipeline& pipeline, const StageName& name)
      : name_(name), order_(stages_in_order(pipeline)), reads_(reads_of_stages(pipeline)) {
    for (int stage = 0; stage < static_cast<int>(order_.size()); ++stage) places_.push_back(place_of(pipeline, stage));
  }

  const std::vector<int>& order() const { return order_; }
  bool is_read(int stage, int reader) const { return reads_[as_index(stage)][as_index(reader)]; }
  bool is_same_place(int a, int b) const { return places_[as_index(a)] == places_[as_index(b)]; }

  std::string no_chain(const std::vector<int>& stages) const {
    for (size_t i = 1; i < stages.size(); ++i)
      if (!is_read(stages[i - 1], stages[i]))
        return format("stage '{}' does not read stage '{}'", name_(stages[i]), name_(stages[i - 1]));
    return "";
  }
  std::string overlap() const {
    for (size_t a = 0; a < order_.size(); ++a)
      for (size_t b = 0; b < a; ++b) {
        const int one = order_[b], other = order_[a];
        if (!is_same_place(one, other) && share_a_device(places_[as_index(one)], places_[as_index(other)]))
          return format("stages '{}' and '{}' share some of their devices, but not all", name_(one), name_(other));
      }
    return "";
  }
  std::string shared_place(const std::vector<int>& stages) const {
    for (size_t a = 0; a < stages.size(); ++a)
      for (size_t b = 0; b < a; ++b)
        if (is_same_place(stages[a], stages[b]))
          return format("stages '{}' and '{}' are at one place", name_(stages[b]), name_(stages[a]));
    return "";
  }
  /// a[i] and b[i] are to be at one place.
  std::string other_places(const std::vector<int>& a, const std::vector<int>& b) const {
    for (size_t i = 0; i < a.size(); ++i)
      if (!is_same_place(a[i], b[i]))
        return format("stage '{}' is not at the place of stage '{}'", name_(b[i]), name_(a[i]));
    return "";
  }

 private:
  const StageName& name_;
  const std::vector<int> order_;
  const std::vector<std::vector<bool>> reads_;
  std::vector<std::vector<int>> places_;  // by stage
};

std::string first_fault(std::initializer_list<std::string> faults) {
  for (const std::string& fault : faults)
    if (!fault.empty()) return fault;
  return "";
}

std::vector<int> part(const std::vector<int>& stages, size_t begin, size_t end) {
  return {stages.begin() + static_cast<std::ptrdiff_t>(begin), stages.begin() + static_cast<std::ptrdiff_t>(end)};
}

/// Chunks by place.
std::vector<std::vector<int>> by_place(const std::vector<std::vector<int>>& chunks) {
  std::vector<std::vector<int>> stages(chunks.front().size());
  for (const std::vector<int>& chunk : chunks)
    for (size_t place = 0; place < chunk.size(); ++place) stages[place].push_back(chunk[place]);
  return stages;
}

Placement misplaced(std::string refusal) { return {{}, std::move(refusal)}; }

}  // namespace

std::string number_of_stage(int stage) { return std::to_string(stage); }

Placement round_robin_placement(const StagedPipeline& pipeline, const StageName& name) {
  const PlacementChecks checks(pipeline, name);
  const std::vector<int>& chain = checks.order();
  if (std::string fault = first_fault({checks.no_chain(chain), checks.overlap()}); !fault.empty())
    return misplaced(fault);
  size_t places = 1;
  while (places < chain.size() && !checks.is_same_place(chain[0], chain[places])) ++places;
  const std::vector<int> first = part(chain, 0, places);
  if (const std::string fault = checks.shared_place(first); !fault.empty()) return misplaced(fault);
  if (places == chain.size()) return misplaced("each place has one stage, which is what 1f1b is for");
  if (places == 1) return misplaced(format("stages '{}' and '{}' are at one place", name(chain[0]), name(chain[1])));
  std::vector<std::vector<int>> chunks;
  for (size_t begin = 0; begin < chain.size(); begin += places) {
    chunks.push_back(part(chain, begin, std::min(chain.size(), begin + places)));
    const std::vector<int> above = part(first, 0, chunks.back().size());
    if (const std::string fault = checks.other_places(above, chunks.back()); !fault.empty()) return misplaced(fault);
  }
  if (chain.size() % places != 0)
    return misplaced(format("{} stages are no multiple of {} places", chain.size(), places));
  return {by_place(chunks), ""};
}

Placement v_placement(const StagedPipeline& pipeline, const StageName& name) {
  const PlacementChecks checks(pipeline, name);
  const std::vector<int>& chain = checks.order();
  if (std::string fault = first_fault({checks.no_chain(chain), checks.overlap()}); !fault.empty())
    return misplaced(fault);
  if (chain.size() % 2 != 0) return misplaced(format("{} is an odd number of stages", chain.size()));
  const std::vector<int> there = part(chain, 0, chain.size() / 2);
  std::vector<int> back = part(chain, chain.size() / 2, chain.size());
  std::reverse(back.begin(), back.end());
  std::string fault = first_fault({checks.other_places(there, back), checks.shared_place(there)});
  if (!fault.empty()) return misplaced(std::move(fault));
  return {by_place({there, back}), ""};
}

Placement opposite_placement(const StagedPipeline& pipeline, const StageName& name) {
  const PlacementChecks checks(pipeline, name);
  std::vector<int> one, other;
  for (const int stage : checks.order()) {
    const bool is_of_one = one.empty() || checks.is_read(one.front(), stage);
    (is_of_one ? one : other).push_back(stage);
  }
  if (other.empty()) return misplaced(format("all stages read stage '{}'", name(one.front())));
  std::string fault = first_fault({checks.no_chain(one), checks.no_chain(other), checks.overlap()});
  for (const int reader : one)
    for (const int stage : other)
      if (fault.empty() && checks.is_read(stage, reader))
        fault = format("stage '{}' reads both stage '{}' and stage '{}'", name(reader), name(one.front()), name(stage));
  if (fault.empty() && one.size() != other.size())
    fault = format("the chains of stages '{}' and '{}' have {} and {} stages", name(one.front()), name(other.front()),
                   one.size(), other.size());
  std::reverse(other.begin(), other.end());
  if (fault.empty()) fault = first_fault({checks.other_places(one, other), checks.shared_place(one)});
  if (!fault.empty()) return misplaced(std::move(fault));
  return {by_place({one, other}), ""};
}

}  // namespace weftc
