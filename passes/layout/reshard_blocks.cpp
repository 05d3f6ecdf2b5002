// Gives each reshard a block, since a pipeline runs every op in one. It is the block of the operand. A reshard of an
// input or a constant goes to the block of its readers, with a copy for each block that reads.
#include "ir/op_def.h"
#include "passes/layout/reshard.h"

namespace weftc {

namespace {

/// Walks forward, so that blocks follow operands, then backward for reshards whose operands have no block.
class ReshardBlocks {
 public:
  explicit ReshardBlocks(Module& module) : module_(module), graph_(module.graph) {}

  void run() {
    const std::vector<OpId> order = graph_.order();
    for (OpId id : order)
      if (lacks_block(id)) follow_operand(id);
    for (auto at = order.rbegin(); at != order.rend(); ++at)  // readers first
      if (lacks_block(*at)) follow_readers(*at);
  }

 private:
  bool lacks_block(OpId id) const {
    const Op& op = graph_.op(id);
    return category(op) == Category::Collective && !op.block;
  }

  void follow_operand(OpId id) {
    const Op& producer = graph_.producer_op(graph_.op(id).inputs[0]);
    if (!producer.block) return;
    const std::optional<int> reader = common_reader(id);
    graph_.edit(id).block = reader ? reader : producer.block;
  }

  /// The block in which all that reads the reshard runs, where it is at the same place.
  std::optional<int> common_reader(OpId id) const {
    std::optional<int> common;
    for (const Use& use : graph_.value(graph_.result(id)).uses) {
      if (!use.op || !(graph_.op(use.op).place == graph_.op(id).place)) return {};
      const std::optional<int> block = graph_.op(use.op).block;
      if (!block || (common && *common != *block)) return {};
      common = block;
    }
    return common;
  }

  /// Takes the block of the first reader, and repeats the reshard for readers in other blocks.
  void follow_readers(OpId id) {
    std::map<int, std::vector<Use>> readers;
    for (const Use& use : graph_.value(graph_.result(id)).uses)
      if (use.op) readers[graph_.op(use.op).block.value()].push_back(use);
    if (readers.empty()) readers[first_block_of(graph_.op(id).place)];
    graph_.edit(id).block = readers.begin()->first;
    for (auto at = std::next(readers.begin()); at != readers.end(); ++at) {
      const ValueId own = repeat(id, at->first);
      for (const Use& use : at->second) graph_.set_input(use.op, use.input, own);
    }
  }

  ValueId repeat(OpId id, int block) {
    const Op op = graph_.op(id);
    const std::string name = op.name + "." + module_.pipeline->blocks[static_cast<size_t>(block)].name;
    NewOp made = copy_of(op);
    made.name = name;
    made.inputs = op.inputs;
    made.results = {graph_.type(op.outputs[0])};
    made.block = block;
    return graph_.result(graph_.add(std::move(made), graph_.next(id)));
  }

  /// The block of a reshard that only the model's outputs read: any block in its place.
  int first_block_of(PlaceId place) const {
    for (OpId id : graph_.order())
      if (graph_.op(id).place == place && graph_.op(id).block) return *graph_.op(id).block;
    return 0;
  }

  Module& module_;
  Graph& graph_;
};

}  // namespace

void give_reshards_blocks(Module& module) { ReshardBlocks(module).run(); }

}  // namespace weftc
