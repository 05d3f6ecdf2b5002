// Copies of a constant differ in their storage or in the axes that slice them: equal ones are already one weight of the
// Plan.
#include "cli/stored_weights.h"

#include <map>
#include <set>

#include "ir/base/naming.h"
#include "ir/base/text.h"
#include "ir/plan_walk.h"

namespace weftc {

namespace {

/// The kernels that read one weight, and whether some read it packed for them and others as they find it.
struct Readers {
  std::set<std::string> names;
  bool has_packed = false, has_other = false;
};

using ByWeight = std::map<uint32_t, Readers>;

/// Readers of weights, by the constant and its place.
std::map<std::pair<uint32_t, uint32_t>, ByWeight> readers_of(const Plan& plan) {
  std::map<std::pair<uint32_t, uint32_t>, ByWeight> found;
  for (const Block& block : plan.blocks)
    for_each_step(block.steps, [&](const Step& step) {
      const auto* launch = std::get_if<LaunchStep>(&step.what);
      for (size_t f = 0; launch && f < launch->operands.size(); ++f) {
        const WeightId id = launch->operands[f].weight;
        if (!id) continue;
        const Kernel& kernel = plan.kernel(launch->kernel);
        const Weight& weight = plan.weight(id);
        Readers& readers = found[{weight.constant.index, weight.place.index}][id.index];
        readers.names.insert("'" + kernel.name + "'");
        (!packed_weights_of(kernel.strategy).empty() ? readers.has_packed : readers.has_other) = true;
      }
    });
  return found;
}

std::string names_text(const Readers& readers) {
  return join(std::vector<std::string>(readers.names.begin(), readers.names.end()), ", ");
}

/// "row-major, {tp: 0} for 'embed'".
std::string copy_text(const Plan& plan, const Weight& weight, const Readers& readers) {
  const Mesh& mesh = plan.places[weight.place.index].mesh;
  const std::string slices = weight.type.layout.is_replicated() ? "" : ", " + layout_text(weight.type.layout, mesh);
  return weight.storage.text() + slices + " for " + names_text(readers);
}

}  // namespace

std::vector<std::string> stored_weights_remarks(const Plan& plan) {
  std::vector<std::string> remarks;
  for (const auto& [constant, weights] : readers_of(plan)) {
    std::vector<std::string> copies;
    for (const auto& [number, readers] : weights) copies.push_back(copy_text(plan, plan.weights[number], readers));
    const auto& [first, readers] = *weights.begin();
    const std::string name = "weight '" + plan.weights[first].name + "'";
    if (copies.size() > 1)
      remarks.push_back(format("{} is stored {} times: {}", name, copies.size(), join(copies, "; ")));
    else if (readers.has_packed && readers.has_other)
      remarks.push_back(format("{} is stored once: {}", name, copies[0]));
  }
  return remarks;
}

}  // namespace weftc
