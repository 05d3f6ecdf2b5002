// pipeline, in a training: gives ops outside of the micro-batches blocks that run once.
//
//   a_start      in front of them, what they read: numbers of labels that count, and what is made of inputs that all
//                micro-batches share; a_start_2 where it needs what another stage's a_start has sent it
//   a_figures    after them: the loss of the batch, of the sums that the micro-batches have made
//   a_update     what is made of the sums of gradients; a_update_2 where it needs another stage's update, whose
//                a_update has sent it: the norm of all gradients, gradients of a parameter that two stages read
//
// So no two of these blocks wait for each other while they run, and ranks that take part in several run one by one.
#include <algorithm>
#include <map>
#include <set>

#include "passes/graph_order.h"
#include "passes/transform/transforms.h"

namespace weftc {

namespace {

/// The order of blocks that run once: by the turn, the phase, how many others it waits for in sequence, and the stage.
struct OnceKey {
  Turn turn;
  Phase phase;
  int level, stage;
  auto operator<=>(const OnceKey&) const = default;
};

class OnceBlocks {
 public:
  explicit OnceBlocks(Module& module) : module_(module), graph_(module.graph) {
    for (const OpId id : graph_.order())
      if (const Op& op = graph_.op(id); op.kind == OpKind::Chunk && op.mechanism == Mechanism::Pipeline) chunk_ = id;
  }

  void run(const PipelineRequest& request) {
    find_ops();
    find_levels();
    for (const OpId id : ops_) keys_.emplace(id, key_of(id));
    number(request);
  }

 private:
  const Pipeline::Block& block(const Op& op) const { return module_.pipeline->blocks[static_cast<size_t>(*op.block)]; }
  int stage(OpId id) const { return block(graph_.op(id)).stage; }

  /// Finds the ops that run once. Ops before the micro-batches make the operands of these, and send them on, whoever
  /// reads them. Without micro-batches, the blocks of forward and backward pass stay.
  void find_ops() {
    std::vector<bool> is_in_front(graph_.op_capacity(), false);
    if (chunk_) is_in_front = ancestors_of(graph_, graph_.op(chunk_).inputs);
    for (const OpId id : graph_.order()) {
      const Op& op = graph_.op(id);
      if (!op.block || id == chunk_ || category(op) == Category::Source) continue;
      if (!chunk_ && block(op).turn != Turn::After) continue;
      ops_.push_back(id);
      if (op.kind == OpKind::Transfer && is_in_front[graph_.producer(op.inputs[0]).index]) is_in_front[id.index] = true;
      if (!is_in_front[id.index]) after_.insert(id);
    }
  }

  /// The phase of an op after the micro-batches: Forward if figures need it, else Update.
  Phase phase(OpId id) const {
    const bool is_forward = !after_.contains(id) || block(graph_.op(id)).phase == Phase::Forward;
    return is_forward ? Phase::Forward : Phase::Update;
  }

  /// The stage that sums up a result of the micro-batches.
  int stage_of_total(ValueId v) const {
    const Graph& body = graph_.op(chunk_).regions[0];
    return block(body.producer_op(body.outputs()[graph_.value(v).result].value)).stage;
  }

  /// The lowest level of an op that its operand `v` allows. A stage sends a sum in a block of its own.
  int level_after(OpId id, ValueId v) {
    const OpId maker = graph_.producer(v);
    if (maker == chunk_ && graph_.op(id).kind == OpKind::Transfer) {
      once_.insert({{Turn::After, phase(id), 0, stage_of_total(v)}, 0});
      return 1;
    }
    const auto made = levels_.find(maker);
    if (made == levels_.end() || after_.contains(maker) != after_.contains(id) || phase(maker) != phase(id)) return 0;
    return made->second + (stage(maker) == stage(id) ? 0 : 1);
  }

  /// Gives ops before the micro-batches the earliest level that their operands allow, and ops after them the latest
  /// that their readers allow. Values that are sent on to the same stage are then sent together.
  void find_levels() {
    for (const OpId id : ops_) {
      int level = 0;
      for (const ValueId v : graph_.op(id).inputs)
        if (v) level = std::max(level, level_after(id, v));
      levels_[id] = level;
    }
    for (auto at = ops_.rbegin(); at != ops_.rend(); ++at) {
      if (!after_.contains(*at)) continue;
      int latest = INT32_MAX;
      for (const ValueId v : graph_.op(*at).outputs)
        for (const Use& use : graph_.value(v).uses)
          if (const auto reader = use.op ? levels_.find(use.op) : levels_.end();
              reader != levels_.end() && phase(use.op) == phase(*at))
            latest = std::min(latest, reader->second - (stage(use.op) == stage(*at) ? 0 : 1));
      if (latest != INT32_MAX) levels_[*at] = latest;
    }
  }

  OnceKey key_of(OpId id) const {
    return {after_.contains(id) ? Turn::After : Turn::Before, phase(id), levels_.at(id), stage(id)};
  }

  /// Numbers the blocks: those before the micro-batches, then those of micro-batches, then those after them.
  void number(const PipelineRequest& request) {
    Pipeline& pipeline = *module_.pipeline;
    for (const auto& [id, key] : keys_) once_.insert({key, 0});
    std::vector<Pipeline::Block> blocks;
    const auto add = [&](Turn turn) {
      std::map<std::pair<Phase, int>, int> counts;  // of a stage
      for (auto& [key, number] : once_) {
        if (key.turn != turn) continue;
        number = static_cast<int>(blocks.size());
        std::string name = request.stages[static_cast<size_t>(key.stage)].name;
        name += turn == Turn::Before ? "_start" : key.phase == Phase::Forward ? "_figures" : "_update";
        const int count = ++counts[{key.phase, key.stage}];
        if (count > 1) name += "_" + std::to_string(count);
        blocks.push_back({name, key.stage, key.phase, turn});
      }
    };
    add(Turn::Before);
    std::vector<int> now(pipeline.blocks.size(), -1);
    for (size_t b = 0; b < pipeline.blocks.size(); ++b)
      if (pipeline.blocks[b].turn == Turn::MicroBatch) {
        now[b] = static_cast<int>(blocks.size());
        blocks.push_back(pipeline.blocks[b]);
      }
    add(Turn::After);
    renumber(graph_, now);
    if (chunk_) renumber(graph_.edit(chunk_).regions[0], now);
    for (const auto& [id, key] : keys_) graph_.edit(id).block = once_.at(key);
    follow_readers();
    for (Pipeline::Entry& entry : pipeline.order) entry.block = now[static_cast<size_t>(entry.block)];
    pipeline.blocks = std::move(blocks);
  }

  /// A random draw outside of the micro-batches goes into the block that reads it first.
  void follow_readers() {
    for (const OpId id : graph_.order()) {
      if (category(graph_.op(id)) != Category::Source || !graph_.op(id).block) continue;
      for (const Use& use : graph_.value(graph_.result(id)).uses)
        if (use.op && graph_.op(use.op).block) {
          graph_.edit(id).block = graph_.op(use.op).block;
          break;
        }
    }
  }

  static void renumber(Graph& graph, const std::vector<int>& now) {
    for (const OpId id : graph.order())
      if (std::optional<int>& block = graph.edit(id).block) block = now[static_cast<size_t>(*block)];
  }

  Module& module_;
  Graph& graph_;
  OpId chunk_;  // invalid: there is one micro-batch
  std::vector<OpId> ops_;
  std::set<OpId> after_;
  std::map<OpId, int> levels_;
  std::map<OpId, OnceKey> keys_;
  std::map<OnceKey, int> once_;  // numbers of blocks
};

}  // namespace

void settle_blocks(Module& module, const PipelineRequest& request) { OnceBlocks(module).run(request); }

}  // namespace weftc
