// Every name that a schedule can select belongs to the stage of its ops, or to none: a pattern for one stage matches no
// name of another. A mask that several stages compute for themselves is listed by none of them.
#include "cli/plan/stage_nodes.h"

#include <algorithm>
#include <set>
#include <utility>

#include "cli/plan/node_patterns.h"
#include "passes/select.h"

namespace weftc {

namespace {

constexpr int kAny = -1, kSeveral = -2;  // beside the numbers of stages

int joined(int a, int b) { return a == kAny || a == b ? b : b == kAny ? a : kSeveral; }

class StageNames {
 public:
  StageNames(const Module& module, const Schedule& schedule, const StageCells& cells, const std::vector<int>& stage_of)
      : module_(module),
        graph_(module.graph),
        schedule_(schedule),
        cells_(cells),
        stage_of_op_(graph_.op_capacity(), kAny),
        wanted_(static_cast<size_t>(stage_of.empty() ? 0 : stage_of.back() + 1)),
        others_(wanted_.size()) {
    find_stages(stage_of);
    find_wanted();
    find_others();
  }

  std::optional<std::vector<StageRequest>> run() const {
    std::vector<StageRequest> requests;
    for (size_t s = 0; s < wanted_.size(); ++s) {
      StageRequest request{"stage" + std::to_string(s), "", {}, {}};
      request.has_rest = s + 1 == wanted_.size();
      if (!request.has_rest) {
        const std::optional<std::vector<std::string>> patterns = patterns_of(wanted_[s], others_[s]);
        if (!patterns || patterns->empty()) return {};
        for (const std::string& pattern : *patterns) request.nodes.push_back({Selector::Kind::Name, pattern, {}});
      }
      requests.push_back(std::move(request));
    }
    return requests;
  }

 private:
  /// An op without a cell belongs to the stages that read it.
  void find_stages(const std::vector<int>& stage_of) {
    const std::vector<OpId> order = graph_.order();
    for (auto at = order.rbegin(); at != order.rend(); ++at) {
      int& stage = stage_of_op_[at->index];
      if (const int cell = cells_.cell_of[at->index]; cell >= 0) {
        stage = stage_of[static_cast<size_t>(cell)];
        continue;
      }
      for (const ValueId v : graph_.op(*at).outputs)
        for (const Use& use : graph_.value(v).uses)
          if (use.op && cells_.is_forward[use.op.index]) stage = joined(stage, stage_of_op_[use.op.index]);
    }
  }

  /// The node of the model that an op comes from.
  std::optional<std::string> node_of(const Op& op) const {
    for (const OriginId id : op.origins) {
      const Origin& origin = module_.origins[id.index];
      const bool is_added = module_.training && origin.loc.file == schedule_.file;
      if (origin.phase == Phase::Forward && !is_added) return origin.name;
    }
    return {};
  }

  /// Views follow their operand and are not listed, except those that join several stages: these would go to the last
  /// stage.
  bool has_to_be_listed(OpId id) const {
    if (cells_.is_node[id.index]) return true;
    if (!cells_.is_forward[id.index] || cells_.cell_of[id.index] < 0) return false;
    int read = kAny;
    for (const ValueId v : graph_.op(id).inputs)
      if (v && cells_.cell_of[graph_.producer(v).index] >= 0)
        read = joined(read, stage_of_op_[graph_.producer(v).index]);
    return read == kSeveral;
  }

  void find_wanted() {
    std::set<std::string> known;
    for (const OpId id : graph_.order()) {
      if (!has_to_be_listed(id)) continue;
      const std::optional<std::string> name = node_of(graph_.op(id));
      if (name && known.insert(*name).second) wanted_[static_cast<size_t>(stage_of_op_[id.index])].push_back(*name);
    }
  }

  void find_others() {
    const SelectableNames names(module_, graph_, schedule_.aliases);
    for (const std::string& name : names.all()) {
      int stage = kAny;
      for (const OpId id : names.ops(name))
        if (cells_.is_forward[id.index]) stage = joined(stage, stage_of_op_[id.index]);
      if (stage == kAny) continue;
      for (size_t s = 0; s < others_.size(); ++s)
        if (stage != static_cast<int>(s)) others_[s].insert(name);
    }
  }

  const Module& module_;
  const Graph& graph_;
  const Schedule& schedule_;
  const StageCells& cells_;
  std::vector<int> stage_of_op_;
  std::vector<std::vector<std::string>> wanted_;  // by stage
  std::vector<std::set<std::string>> others_;     // by stage: names of other stages' nodes
};

}  // namespace

std::optional<std::vector<StageRequest>> stage_requests(const Module& module, const Schedule& schedule,
                                                        const StageCells& cells, const std::vector<int>& stage_of) {
  return StageNames(module, schedule, cells, stage_of).run();
}

}  // namespace weftc
