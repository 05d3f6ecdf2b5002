// A trace names steps; the Plan tells the block of each. The runs of a step in an iteration are in the order of
// micro-batches, equally many for each.
#include "cli/block_times.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>

#include "cli/measured_times.h"
#include "ir/plan_walk.h"

namespace weftc {

namespace {

constexpr const char* kPhases[] = {"forward", "backward", "update"};

/// A block, a transfer, or neither: of sends, whose time is the receiver's.
struct Slot {
  enum class Kind { None, Block, Transfer };
  Kind kind = Kind::None;
  size_t number = 0;
  bool operator==(const Slot&) const = default;
  auto operator<=>(const Slot&) const = default;
};

/// One run of a step.
struct StepTurn {
  Slot slot;
  int micro_batch = 0;
  auto operator<=>(const StepTurn&) const = default;
};

/// Calls `visit` for each run of each step, those inside others included; a While loop's once, since nothing says how
/// often it runs.
void visit_runs(const std::vector<Step>& steps, const std::function<void(const Step&)>& visit) {
  for (const Step& step : steps) {
    visit(step);
    const auto* const loop = std::get_if<ForStep>(&step.what);
    for (int trip = 0, trips = loop ? loop->trips : 1; trip < trips; ++trip)
      for (const std::vector<Step>* body : bodies_of(step)) visit_runs(*body, visit);
  }
}

class StepFinder {
 public:
  explicit StepFinder(const Compilation& c) : c_(c) { name_blocks(), name_transfers(); }

  const Profile& blank() const { return blank_; }

  /// By rank and name: the blocks that run a step of that name in an iteration, in sequence.
  std::map<std::pair<int, std::string>, std::vector<StepTurn>> turns() const {
    std::map<std::pair<int, std::string>, std::vector<StepTurn>> made;
    for (const OrderedBlock& entry : c_.plan.order)
      for (const int rank : ranks_of(static_cast<size_t>(entry.block)))
        visit_runs(c_.plan.blocks[static_cast<size_t>(entry.block)].steps, [&](const Step& step) {
          made[{rank, step.name}].push_back({slot_of(static_cast<size_t>(entry.block), step), entry.micro_batch});
        });
    return made;
  }

 private:
  const std::vector<int>& ranks_of(size_t block) const {
    return c_.plan.places[c_.plan.blocks[block].place.index].ranks;
  }
  int runs_of(size_t block) const { return c_.plan.blocks[block].turn == Turn::MicroBatch ? c_.plan.micro_batches : 1; }
  std::string name_of(size_t block, const Step& step) const {
    if (c_.module.pipeline) return name_of_block(c_.plan, c_.module, c_.schedule, static_cast<int>(block));
    return c_.module.training ? kPhases[static_cast<int>(step.phase)] : "run";
  }

  /// In the order of the Plan.
  void name_blocks() {
    for (size_t b = 0; b < c_.plan.blocks.size(); ++b)
      for_each_step(c_.plan.blocks[b].steps, [&](const Step& step) {
        const auto [at, is_new] = numbers_.insert({name_of(b, step), blank_.blocks.size()});
        if (is_new) blank_.blocks.push_back({at->first, ranks_of(b), runs_of(b), 0, 0});
      });
  }

  void name_transfers() {
    std::map<int, std::string> senders;
    for (size_t b = 0; b < c_.plan.blocks.size(); ++b)
      for (const Step& step : c_.plan.blocks[b].steps)
        if (const auto* send = std::get_if<SendStep>(&step.what)) senders[send->transfer] = name_of(b, step);
    for (size_t b = 0; b < c_.plan.blocks.size(); ++b)
      for (const Step& step : c_.plan.blocks[b].steps)
        if (const auto* recv = std::get_if<RecvStep>(&step.what))
          add_transfer(recv->transfer, senders, name_of(b, step));
  }

  void add_transfer(int transfer, const std::map<int, std::string>& senders, const std::string& to) {
    const std::string& from = senders.at(transfer);
    std::vector<TransferTime>& all = blank_.transfers;
    const auto known = std::find_if(all.begin(), all.end(),
                                    [&](const TransferTime& each) { return each.from == from && each.to == to; });
    const size_t number = static_cast<size_t>(known - all.begin());
    if (known == all.end()) all.push_back({from, to, 0, 0});
    all[number].bytes += c_.plan.buffer(c_.plan.transfers[static_cast<size_t>(transfer)].to).bytes;
    transfers_[transfer] = number;
  }

  Slot slot_of(size_t block, const Step& step) const {
    if (std::holds_alternative<SendStep>(step.what)) return {};
    if (const auto* recv = std::get_if<RecvStep>(&step.what))
      return {Slot::Kind::Transfer, transfers_.at(recv->transfer)};
    return {Slot::Kind::Block, numbers_.at(name_of(block, step))};
  }

  const Compilation& c_;
  Profile blank_;
  std::map<std::string, size_t> numbers_;  // in blank_.blocks
  std::map<int, size_t> transfers_;        // in blank_.transfers
};

/// Steps of one name on one rank, by iteration: when they began, and their seconds.
using StepRuns = std::map<int, std::vector<std::pair<double, double>>>;

std::map<std::pair<int, std::string>, StepRuns> runs_of(const Trace& trace) {
  std::map<std::pair<int, std::string>, StepRuns> runs;
  for (size_t i = 0; i < trace.all.boxes.size(); ++i) {
    const TimelineBox& box = trace.all.boxes[i];
    const std::string& name = trace.all.steps[static_cast<size_t>(box.step)].name;
    runs[{trace.all.lanes[static_cast<size_t>(box.lane)].rank, name}][trace.of_box[i]].push_back(
        {box.begin, box.end - box.begin});
  }
  for (auto& [step, iterations] : runs)
    for (auto& [iteration, each] : iterations) std::sort(each.begin(), each.end());
  return runs;
}

/// Seconds in all micro-batches of all iterations, by slot.
std::map<Slot, std::vector<double>> times_by_slot(const StepRuns& runs, const std::vector<StepTurn>& turns) {
  std::map<Slot, std::vector<double>> times;
  for (const auto& [iteration, each] : runs) {
    std::map<StepTurn, double> sums;
    for (size_t i = 0; i < each.size(); ++i) sums[turns[i * turns.size() / each.size()]] += each[i].second;
    for (const auto& [turn, seconds] : sums) times[turn.slot].push_back(seconds);
  }
  return times;
}

}  // namespace

double quantile(std::vector<double> values, double part) {
  if (values.empty()) return NAN;
  std::sort(values.begin(), values.end());
  const double at = part * static_cast<double>(values.size() - 1);
  const size_t below = static_cast<size_t>(at), above = std::min(below + 1, values.size() - 1);
  return values[below] + (at - static_cast<double>(below)) * (values[above] - values[below]);
}

Profile blank_profile(const Compilation& c) { return StepFinder(c).blank(); }

std::string add_times(Profile& profile, const Compilation& c, const Trace& trace, double part) {
  const auto turns = StepFinder(c).turns();
  std::map<std::pair<Slot, int>, double> seconds;  // by rank
  for (const auto& [step, runs] : runs_of(trace)) {
    const auto known = turns.find(step);
    if (known == turns.end()) return format("rank {} has no step '{}'", step.first, step.second);
    for (auto& [slot, times] : times_by_slot(runs, known->second))
      seconds[{slot, step.first}] += quantile(std::move(times), part);
  }
  for (const auto& [of, sum] : seconds) {
    const Slot& slot = of.first;
    if (slot.kind == Slot::Kind::None) continue;
    int64_t& time =
        slot.kind == Slot::Kind::Block ? profile.blocks[slot.number].time : profile.transfers[slot.number].time;
    time = std::max(time, static_cast<int64_t>(std::llround(sum * 1e9)));
  }
  // At least 1 ns, also for blocks shorter than the clock's resolution and for empty ones.
  for (BlockTime& block : profile.blocks) block.time = std::max<int64_t>(1, block.time);
  for (TransferTime& transfer : profile.transfers) transfer.time = std::max<int64_t>(1, transfer.time);
  return "";
}

}  // namespace weftc
