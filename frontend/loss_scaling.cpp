// The decision is the same on all ranks: it depends on the number of elements that are not finite, summed over all
// ranks.
#include "frontend/loss_scaling.h"

namespace weftc {

namespace {
constexpr const char *kScale = "train.loss_scale", *kGood = "train.good_steps", *kFinite = "train.are_finite";
constexpr float kFirstScale = 65536;
constexpr const char* kPart = "weft.part";
}  // namespace

std::string write_scaled_loss(TrainingWriter& step, const std::string& loss) {
  step.add_number(kScale, std::string(kScale) + ".next", kFirstScale);
  step.add_number(kGood, std::string(kGood) + ".next", 0);
  step.add("CastLike", {kScale, loss}, {"train.loss_scale.like"});
  step.add("Mul", {loss, "train.loss_scale.like"}, {"train.scaled_loss"});
  return "train.scaled_loss";
}

void write_unscaled(TrainingWriter& step, const std::vector<std::string>& gradients) {
  std::vector<std::string> counts;
  for (const std::string& gradient : gradients) {
    const std::string unscaled = gradient + kUnscaled;
    step.call(unscaled, kPart, "unscaled", {gradient, kScale}, {unscaled});
    counts.push_back(gradient + ".odd");
    step.call(counts.back(), kPart, "count_not_finite", {gradient}, {counts.back()});
  }
  step.add("Sum", counts, {"train.odd"});
  step.call("train.scaling", kPart, "next_loss_scale", {kScale, kGood, "train.odd"},
            {std::string(kScale) + ".next", std::string(kGood) + ".next", kFinite, kSkipped});
  step.add("Identity", {kScale}, {kLossScale});
}

std::string write_unless_skipped(TrainingWriter& step, const std::string& state, const std::string& next) {
  const std::string computed = next + ".computed";
  step.add("Where", {kFinite, computed, state}, {next});
  return computed;
}

}  // namespace weftc
