// Keywords that schedules and the command line share.
#include "ir/schedule.h"

namespace weftc {

namespace {
struct Precision {
  const char* name;
  DType dtype;
};
constexpr Precision kPrecisions[] = {{"bf16", DType::BF16}, {"fp16", DType::F16}, {"fp32", DType::F32}};
}  // namespace

const std::vector<std::string>& precision_names() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> all;
    for (const Precision& precision : kPrecisions) all.emplace_back(precision.name);
    return all;
  }();
  return names;
}

std::optional<DType> parse_precision(std::string_view name) {
  for (const Precision& precision : kPrecisions)
    if (name == precision.name) return precision.dtype;
  return {};
}

std::vector<PlaceRequest> places_of(const Schedule& schedule) {
  if (!schedule.places.empty()) return schedule.places;
  std::vector<PlaceRequest> places;
  int next = 0;
  const auto add = [&](const std::string& name, const Loc& loc) {
    PlaceRequest& place = places.emplace_back(PlaceRequest{name, {}, schedule.mesh, loc});
    for (const int end = next + mesh_size(schedule.mesh); next < end; ++next) place.ranks.push_back(next);
  };
  if (schedule.pipeline)
    for (const StageRequest& stage : schedule.pipeline->stages)
      if (stage.place.empty()) add(stage.name, stage.loc);
  if (places.empty()) add("all", {});
  return places;
}

}  // namespace weftc
