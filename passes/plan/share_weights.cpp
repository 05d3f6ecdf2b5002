// Lets a kernel look up in a table as a product wants it packed, so that a tied embedding is stored once:
//
//   Gather(wte, ids)             row-major -> 0/16 1 0%16
//   MatMul(x, Transpose(wte))    panels of 16 columns, 0/16 1 0%16
//
// Both must read the same slices of one constant. A table stays row-major where another kernel reads it in another way,
// because the copy exists anyway. It also stays row-major where look-ups would take too long for the bytes that are
// saved: in panels each element has a cache line of its own.
#include <algorithm>

#include "passes/cost/cost_model.h"
#include "passes/plan/plan_parts.h"

namespace weftc {

namespace {

/// The share of a rank's total time that look-ups may add. Measured: GPT-2 with 128 tokens, 0.45 ms of 350.
constexpr double kMostTime = 0.01;

/// A weight, before it is packed, as kernels want it.
struct Wanted {
  Storage packing;          // of the first kernel that wants it packed
  bool is_shared = true;    // every other kernel reads that packing
  int64_t added_bytes = 0;  // that look-ups bring more if they do
};

/// A parameter of a kernel, with the weights that its launches bind to it.
struct BoundParameter {
  Kernel* kernel = nullptr;
  size_t number = 0;
  bool is_table = false;  // the kernel only looks up in it, wherever elements lie
  std::vector<WeightId> weights;

  Parameter& parameter() const { return kernel->parameters[number]; }
  int64_t added_bytes(const Storage& packing) const {
    return *looked_up_bytes(*kernel, number, packing) - *looked_up_bytes(*kernel, number, {});
  }
};

/// Strategies that reach every element by its index.
bool reads_any_storage(const Strategy& strategy) {
  return std::holds_alternative<Elementwise>(strategy) || std::holds_alternative<Rows>(strategy);
}

class WeightSharing {
 public:
  explicit WeightSharing(PlanDraft& planning)
      : module_(planning.module), plan_(planning.plan), wanted_(plan_.weights.size()) {
    std::vector<std::vector<BoundParameter>> bound(plan_.kernels.size());
    for (size_t k = 0; k < plan_.kernels.size(); ++k) bound[k].resize(plan_.kernels[k].parameters.size());
    for (const Block& block : plan_.blocks) for_each_step(block.steps, [&](const Step& step) { bind(step, bound); });
    for (std::vector<BoundParameter>& parameters : bound)
      for (BoundParameter& parameter : parameters)
        if (!parameter.weights.empty()) parameters_.push_back(std::move(parameter));
  }

  void run() {
    for (const BoundParameter& bound : parameters_)
      for (WeightId id : bound.weights) want(wanted_[id.index], bound);
    weigh_time();
    // A kernel reads all its tables in one storage: one that must stay row-major keeps the tables of its other launches
    // so.
    while (keep_row_major()) {
    }
    for (const BoundParameter& bound : parameters_)
      if (bound.is_table) bound.parameter().storage = packing(bound.weights[0]);
  }

 private:
  void bind(const Step& step, std::vector<std::vector<BoundParameter>>& all) {
    const auto* launch = std::get_if<LaunchStep>(&step.what);
    for (size_t f = 0; launch && f < launch->operands.size(); ++f) {
      if (!launch->operands[f].weight) continue;
      BoundParameter& bound = all[launch->kernel.index][f];
      bound.kernel = &plan_.kernels[launch->kernel.index], bound.number = f;
      bound.is_table = reads_any_storage(bound.kernel->strategy) && looked_up_bytes(*bound.kernel, f, {});
      bound.weights.push_back(launch->operands[f].weight);
    }
  }

  static void want(Wanted& wanted, const BoundParameter& bound) {
    const Storage& storage = bound.parameter().storage;
    if (storage.is_row_major() || !storage.has_positions())
      wanted.is_shared = wanted.is_shared && bound.is_table;
    else if (wanted.packing.is_row_major())
      wanted.packing = storage;
  }

  /// How a table lies: row-major where it is not shared.
  Storage packing(WeightId id) const { return wanted_[id.index].is_shared ? wanted_[id.index].packing : Storage{}; }

  /// Does not share a weight where the look-ups in it would add too much to the time of its place.
  void weigh_time() {
    for (const BoundParameter& bound : parameters_)
      for (WeightId id : bound.weights)
        if (bound.is_table) wanted_[id.index].added_bytes += bound.added_bytes(packing(id));
    const Ceilings ceilings = ceilings_of(plan_.target);
    const CostModel costs(plan_, module_, ceilings);
    std::vector<double> seconds(plan_.places.size());
    for (const Block& block : plan_.blocks)
      for_each_step(block.steps, [&](const Step& step) {
        if (std::holds_alternative<LaunchStep>(step.what)) seconds[block.place.index] += costs.of(step, 0).seconds;
      });
    for (size_t w = 0; w < wanted_.size(); ++w) {
      const double added = static_cast<double>(wanted_[w].added_bytes) / ceilings.memory;
      if (added > kMostTime * seconds[plan_.weights[w].place.index]) wanted_[w].is_shared = false;
    }
  }

  /// Whether a weight that was to be shared is not: another table of the same parameter lies in another way.
  bool keep_row_major() {
    bool has_changed = false;
    for (const BoundParameter& bound : parameters_) {
      const auto differs = [&](WeightId id) { return !(packing(id) == packing(bound.weights[0])); };
      if (!bound.is_table || std::none_of(bound.weights.begin(), bound.weights.end(), differs)) continue;
      for (WeightId id : bound.weights) wanted_[id.index].is_shared = false;
      has_changed = true;
    }
    return has_changed;
  }

  const Module& module_;
  Plan& plan_;
  std::vector<Wanted> wanted_;  // by WeightId
  std::vector<BoundParameter> parameters_;
};

}  // namespace

void share_weights(PlanDraft& planning) { WeightSharing(planning).run(); }

}  // namespace weftc
