// Gives reshards a stage, since a pipeline runs every op in one: that of the operand, or, for reshards of
// inputs and constants, that of the readers, with a copy for each stage that reads.
#include "ir/op_def.h"
#include "passes/layout/reshard.h"

namespace weftc {

namespace {

/// Two walks: forward, so that stages follow operands, then backward for what no operand decides.
class ReshardStages {
 public:
  explicit ReshardStages(Module& module) : module_(module), graph_(module.graph) {}

  void run() {
    const std::vector<OpId> order = graph_.order();
    for (OpId id : order)
      if (lacks_stage(id)) follow_operand(id);
    for (auto at = order.rbegin(); at != order.rend(); ++at)  // readers first
      if (lacks_stage(*at)) follow_readers(*at);
  }

 private:
  bool lacks_stage(OpId id) const {
    const Op& op = graph_.op(id);
    return category(op) == Category::Collective && !op.stage;
  }

  void follow_operand(OpId id) {
    const Op& producer = graph_.producer_op(graph_.op(id).inputs[0]);
    graph_.edit(id).stage = producer.stage;
  }

  /// Takes the stage of the first reader, and repeats the reshard for readers in other stages.
  void follow_readers(OpId id) {
    std::map<int, std::vector<Use>> readers;
    for (const Use& use : graph_.value(graph_.result(id)).uses)
      if (use.op) readers[graph_.op(use.op).stage.value()].push_back(use);
    if (readers.empty()) readers[first_stage_of(graph_.op(id).place)];
    graph_.edit(id).stage = readers.begin()->first;
    for (auto at = std::next(readers.begin()); at != readers.end(); ++at) {
      const ValueId own = repeat(id, at->first);
      for (const Use& use : at->second) graph_.set_input(use.op, use.input, own);
    }
  }

  ValueId repeat(OpId id, int stage) {
    const Op op = graph_.op(id);
    const std::string name = op.name + "." + module_.pipeline->stages[static_cast<size_t>(stage)];
    NewOp made = copy_of(op);
    made.name = name;
    made.inputs = op.inputs;
    made.results = {graph_.type(op.outputs[0])};
    made.stage = stage;
    return graph_.result(graph_.add(std::move(made), graph_.next(id)));
  }

  /// The stage of a reshard that only the model's outputs read: any stage in its place.
  int first_stage_of(PlaceId place) const {
    for (OpId id : graph_.order())
      if (graph_.op(id).place == place && graph_.op(id).stage) return *graph_.op(id).stage;
    return 0;
  }

  Module& module_;
  Graph& graph_;
};

}  // namespace

void give_reshards_stages(Module& module) { ReshardStages(module).run(); }

}  // namespace weftc
