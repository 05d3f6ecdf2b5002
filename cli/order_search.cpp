#include "cli/order_search.h"

#include <algorithm>
#include <cmath>

#include "cli/measured_times.h"
#include "cli/order_text.h"
#include "passes/cost/block_costs.h"
#include "passes/pipelining/searched_order.h"
#include "passes/plan/make_plan.h"

namespace weftc {

namespace {

std::string standing_of(int64_t value, int64_t least) { return standing(value <= least, nanoseconds_text(least)); }

class OrderSearch {
 public:
  OrderSearch(const OrderedModule& first, const Profile* profile, Diags& diags)
      : first_(first), module_(first.module), schedule_(first.schedule), profile_(profile), diags_(diags) {}

  std::optional<FoundOrder> run() {
    const std::optional<Plan> plan = make_plan(module_, first_.target, diags_);
    if (!plan) return {};
    BlockCosts costs = block_costs(*plan, *module_.pipeline, CostModel(*plan, module_, first_.machine));
    if (profile_ && !take_measured_times(costs, *plan, module_, schedule_, *profile_, diags_)) return {};
    if (!costs.mutual.empty()) {
      report(costs.mutual.front(), costs.pipeline);
      return {};
    }
    limit_memory(costs);
    const SearchRequest& request = schedule_.pipeline->search;
    const SearchedOrder found = searched_order(costs.pipeline, module_.pipeline->micro_batches, request.periods,
                                               static_cast<uint64_t>(request.seconds) * kStepsASecond);
    if (!found.faults.empty()) {
      report(found.faults.front());
      return {};
    }
    FoundOrder order;
    for (const PipelineTurn& turn : found.turns)
      order.table.push_back({name_of_block(*plan, module_, schedule_, costs.blocks[as_index(turn.block)]),
                             turn.micro_batch, schedule_.pipeline->order_loc});
    order.facts = facts_of(costs, *plan, found);
    return order;
  }

 private:
  void limit_memory(BlockCosts& costs) const {
    const std::optional<int64_t> given = schedule_.pipeline->search.memory;
    for (size_t rank = 0; rank < costs.others.size(); ++rank) {
      int64_t& limit = costs.pipeline.problem.limits[rank];
      if (given) limit = *given;
      if (schedule_.memory_limit)
        limit = std::min(limit, std::max<int64_t>(0, *schedule_.memory_limit - costs.others[rank]));
    }
  }

  void report(const PipelineEdge& mutual, const StagedPipeline& pipeline) const {
    const auto stage = [&](int block) -> const StageRequest& {
      return schedule_.pipeline->stages[as_index(pipeline.stage[as_index(block)])];
    };
    diags_
        .error(
            "order-search-mutual", schedule_.pipeline->order_loc,
            "an order is searched for blocks that run without waiting inside, and the stages '{}' and '{}' read each "
            "other's results: what reads the other stage's result must stand in a stage of its own, or the order "
            "have a name",
            stage(mutual.from).name, stage(mutual.to).name)
        .note(stage(mutual.to).loc, "stage '{}' is here", stage(mutual.to).name);
  }

  void report(const PipelineFault& fault) const {
    const std::string least = fault.least > 0
                                  ? format("rank {} needs {} bytes at least", fault.device, fault.least)
                                  : std::string("each rank could keep it alone, but not all of them together");
    diags_.error("order-memory", schedule_.pipeline->order_loc,
                 "no order keeps the limit of memory for what blocks hand to each other: {}", least);
  }

  std::vector<std::string> facts_of(const BlockCosts& costs, const Plan& plan, const SearchedOrder& found) const {
    const PeriodicSchedule& periodic = found.periodic;
    const std::vector<int64_t> loads = device_loads(costs.pipeline.problem);
    const double load = static_cast<double>(*std::ranges::max_element(loads));
    const double busy = load * module_.pipeline->micro_batches / static_cast<double>(found.length);
    std::vector<std::string> facts;
    facts.push_back(format("period of {} micro-batch{}: {}, {}", periodic.copies, periodic.copies == 1 ? "" : "es",
                           nanoseconds_text(periodic.period), standing_of(periodic.period, periodic.least_period)));
    facts.push_back(format("{} micro-batches: {}, {}; the busiest rank waits for {} %", module_.pipeline->micro_batches,
                           nanoseconds_text(found.length), standing_of(found.length, found.least),
                           std::lround(100 * (1 - busy))));
    if (found.named) facts.push_back(format("it is the order {}", name_of(*found.named)));
    facts.push_back(times_text(costs, plan, module_, schedule_, profile_ != nullptr));
    return facts;
  }

  const OrderedModule& first_;
  const Module& module_;
  const Schedule& schedule_;
  const Profile* const profile_;
  Diags& diags_;
};

}  // namespace

std::optional<FoundOrder> search_order(const OrderedModule& first, const Profile* profile, Diags& diags) {
  return OrderSearch(first, profile, diags).run();
}

std::string standing(bool is_proved, const std::string& bound) {
  return is_proved ? "proved optimal" : "best found, lower bound " + bound;
}

void take_order(Schedule& schedule, const FoundOrder& order) {
  schedule.pipeline->order = PipelineRequest::Order::Table;
  schedule.pipeline->table = order.table;
}

std::string table_text(const std::vector<OrderEntry>& table) {
  std::vector<std::string> entries;
  for (const OrderEntry& entry : table) entries.push_back(format("[{}, {}]", entry.stage, entry.micro_batch));
  return "[" + join(entries, ", ") + "]";
}

}  // namespace weftc
