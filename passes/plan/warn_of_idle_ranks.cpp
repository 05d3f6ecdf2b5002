// Ranks that hold nothing: a dimension with fewer blocks than the ranks that slice it, so that the last of them compute
// and store nothing. The program is right, but the user of so many ranks should know.
#include <set>

#include "passes/plan/plan_parts.h"

namespace weftc {

namespace {

/// World ranks of a place that hold no element of a value.
std::vector<int> idle_ranks(const Place& place, const TensorType& type) {
  std::vector<int> ranks;
  for (int i = 0; i < place.size(); ++i)
    if (element_count(local_dims(type, place.mesh, coordinates_of(place.mesh, i))) == 0)
      ranks.push_back(place.ranks[static_cast<size_t>(i)]);
  return ranks;
}

std::string ranks_text(const std::vector<int>& ranks) {
  std::vector<std::string> names;
  for (const int rank : ranks) names.push_back(std::to_string(rank));
  return (ranks.size() == 1 ? "rank " : "ranks ") + join(names, ", ");
}

/// Values of one place are told once for the same ranks, by the name of the first.
class IdleRanks {
 public:
  explicit IdleRanks(PlanDraft& planning) : planning_(planning) {}

  void look_at(const std::string& name, PlaceId place_id, TensorType type) {
    if (type.count() == 0) return;  // no rank holds anything
    const Place& place = planning_.plan.places[place_id.index];
    for (int a = type.layout.size() - 1; a >= static_cast<int>(place.mesh.size()); --a) type.layout.set(a, {});
    const std::vector<int> ranks = idle_ranks(place, type);
    if (ranks.empty() || !told_.insert({place_id, ranks}).second) return;
    planning_.diags.warning("idle-ranks", Loc::in_file(planning_.module.file),
                            "'{}' of shape {} is sliced so finely that {} hold{} none of it", printable(name),
                            dims_text(type.dims()), ranks_text(ranks), ranks.size() == 1 ? "s" : "");
  }

 private:
  PlanDraft& planning_;
  std::set<std::pair<PlaceId, std::vector<int>>> told_;
};

}  // namespace

void warn_of_idle_ranks(PlanDraft& planning) {
  IdleRanks idle(planning);
  for (const Weight& weight : planning.plan.weights) idle.look_at(weight.name, weight.place, weight.type);
  for (const Buffer& buffer : planning.plan.buffers) idle.look_at(buffer.name, buffer.place, buffer.type);
}

}  // namespace weftc
