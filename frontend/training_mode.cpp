#include "frontend/training_mode.h"

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "frontend/micro_batch_statistics.h"
#include "ir/base/contains.h"
#include "ir/name_pattern.h"

namespace weftc {

namespace {

constexpr int kOpset = 18;  // of added nodes

class TrainingForm {
 public:
  TrainingForm(OnnxModel& model, const Schedule& schedule, Diags& diags)
      : model_(model), schedule_(schedule), request_(*schedule.train), diags_(diags) {}
  std::optional<RunningStatistics> run();

 private:
  void change(std::vector<OnnxNode>& nodes, bool is_subgraph);
  std::vector<OnnxNode> change_dropout(OnnxNode& node);
  void declare_evaluates();
  void note_readers(const OnnxNode& node, const Loc& loc);
  void check_readers() const;
  std::vector<OnnxNode> change_normalization(OnnxNode& node, const Loc& loc);
  void carry(OnnxNode& node, size_t operand, const Loc& loc);
  std::string original(std::string name) const;
  void warn_of_export() const;

  OnnxModel& model_;
  const Schedule& schedule_;
  const TrainRequest& request_;
  Diags& diags_;
  std::unordered_set<std::string> initialisers_;
  std::unordered_map<std::string, std::string> copied_;  // by the result of an Identity, its operand
  std::vector<std::pair<std::string, Loc>> read_;        // initialisers, except operands that are statistics
  RunningStatistics statistics_;
  std::optional<Loc> inferring_;  // the first normalisation in the form for inference
  bool has_dropout_ = false, has_choice_ = false;
  int index_ = 0;  // of the next node, counting subgraphs
};

/// In how many slices an entry cuts the batch, the first dimension of an input.
int slices_of_batch(const ShardEntry& entry, const Mesh& mesh) {
  int slices = 1;
  for (const AxisRequest& request : entry.axes)
    for (const MeshAxis& axis : mesh)
      if (!request.replicated && request.dim == 0 && contains(request.axes, axis.name)) slices *= axis.size;
  return slices;
}

/// In how many slices the schedule cuts the batch. All inputs with a batch are cut alike.
int slices_of_batch(const OnnxModel& model, const Schedule& schedule) {
  int slices = 1;
  for (const ShardEntry& entry : schedule.shard) {
    const NamePattern pattern(entry.target.text);
    const bool is_input = entry.target.kind == Selector::Kind::Name &&
                          std::ranges::any_of(model.graph.inputs, [&](const OnnxValue& input) {
                            return pattern.match(input.name).has_value();
                          });
    if (is_input) slices = std::max(slices, slices_of_batch(entry, schedule.mesh));
  }
  return slices;
}

bool has_training_form(const OnnxNode& node) {
  const OnnxAttr* mode = node.find("training_mode");
  return mode && mode->integer;
}

/// Records read the attribute at every opset; opsets up to 6 have `is_test` instead.
void set_training_form(OnnxNode& node) {
  std::erase_if(node.attrs,
                [](const OnnxAttr& attr) { return attr.name == "training_mode" || attr.name == "is_test"; });
  OnnxAttr& mode = node.attrs.emplace_back();
  mode.name = "training_mode", mode.integer = 1;
}

/// Replaces the operand that selects the mode since opset 12 by the attribute. Returns nodes that choose between the
/// drawn values with their mask, and the input with a mask that drops nothing. The node's name stands for them too.
std::vector<OnnxNode> TrainingForm::change_dropout(OnnxNode& node) {
  node.inputs.resize(std::min<size_t>(node.inputs.size(), 2));
  set_training_form(node);
  has_dropout_ = has_choice_ = true;
  OnnxNode choice;
  node.whole = choice.whole = shown_name(node);
  choice.op_type = "Where", choice.opset = kOpset, choice.modules = node.modules;
  choice.line = node.line, choice.column = node.column;
  choice.outputs = {node.outputs[0]};
  node.outputs[0] += ".drawn";
  choice.inputs = {kEvaluates, node.inputs[0], node.outputs[0]};
  if (node.outputs.size() < 2 || node.outputs[1].empty()) return {choice};
  OnnxNode mask = choice;
  mask.op_type = "Or";
  mask.outputs = {node.outputs[1]};
  node.outputs[1] += ".drawn";
  mask.inputs = {kEvaluates, node.outputs[1]};
  return {choice, mask};
}

/// The source of a chain of Identity nodes: exporters read initialisers through them. A damaged file may have a cycle
/// of them.
std::string TrainingForm::original(std::string name) const {
  auto at = copied_.find(name);
  for (size_t i = 0; i < copied_.size() && at != copied_.end(); ++i) {
    name = at->second;
    at = copied_.find(name);
  }
  return name;
}

/// The operand's statistic becomes a state; its next value is the result three positions earlier.
void TrainingForm::carry(OnnxNode& node, size_t operand, const Loc& loc) {
  const std::string name = original(node.inputs[operand]);
  if (!initialisers_.contains(name)) {
    diags_.error("train-statistics-computed-unsupported", loc,
                 "its running statistics '{}' are no initializer, so that they cannot follow the batches; "
                 "'mode: eval' leaves them as they are",
                 printable(node.inputs[operand]));
    return;
  }
  std::string& next = node.outputs[operand - 2];
  if (next.empty()) next = name + ".next";
  if (!statistics_.emplace(name, next).second)
    diags_.error("train-statistics-shared-unsupported", loc,
                 "its running statistics '{}' are those of another BatchNormalization as well; exporters write equal "
                 "tensors once unless they export for training",
                 printable(name));
}

/// Returns the nodes that replace it if its statistics are those of each micro-batch.
std::vector<OnnxNode> TrainingForm::change_normalization(OnnxNode& node, const Loc& loc) {
  if (node.inputs.size() != 5) return {};  // the importer reports it
  if (!has_training_form(node) && !inferring_) inferring_ = loc;
  set_training_form(node);
  node.inputs.emplace_back(kEvaluates);
  has_choice_ = true;
  node.outputs.resize(3);  // opsets up to 13 declare two more, which are redundant
  for (const size_t operand : {3, 4}) carry(node, operand, loc);
  if (request_.mode != TrainMode::TrainByMicroBatch) return {};
  return normalize_micro_batches(node, request_.accumulate, slices_of_batch(model_, schedule_), kEvaluates);
}

void TrainingForm::change(std::vector<OnnxNode>& nodes, bool is_subgraph) {
  std::vector<OnnxNode> changed;
  for (OnnxNode& each : nodes) {
    OnnxNode& node = changed.emplace_back(std::move(each));
    const Loc loc = model_.loc(node, index_++);
    note_readers(node, loc);
    for (OnnxAttr& attr : node.attrs)
      for (OnnxGraph& graph : attr.graphs) change(graph.nodes, true);
    if (!node.domain.empty()) continue;
    if (node.op_type == "Dropout" && !node.inputs.empty() && !node.outputs.empty())
      for (OnnxNode& choice : change_dropout(changed.back())) changed.push_back(std::move(choice));
    else if (node.op_type != "BatchNormalization")
      continue;
    else if (is_subgraph)
      diags_.error("train-statistics-subgraph-unsupported", loc,
                   "the running statistics of a BatchNormalization in a subgraph cannot follow the batches yet; "
                   "'mode: eval' leaves them as they are");
    else if (std::vector<OnnxNode> parts = change_normalization(changed.back(), loc); !parts.empty()) {
      changed.pop_back();
      std::ranges::move(parts, std::back_inserter(changed));
    }
  }
  nodes = std::move(changed);
}

void TrainingForm::note_readers(const OnnxNode& node, const Loc& loc) {
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    const bool is_statistic = node.op_type == "BatchNormalization" && (i == 3 || i == 4);
    if (!is_statistic && node.op_type != "Identity") read_.emplace_back(original(node.inputs[i]), loc);
  }
}

/// Reports equal tensors that an exporter wrote once: a scale that shared the running variance would not be trained.
void TrainingForm::check_readers() const {
  for (const auto& [name, loc] : read_)
    if (statistics_.contains(name))
      diags_.error("train-statistics-read-unsupported", loc,
                   "it reads '{}', which is a running statistic of a BatchNormalization as well; exporters write equal "
                   "tensors once unless they export for training",
                   printable(name));
}

void TrainingForm::declare_evaluates() {
  OnnxValue input;
  input.name = kEvaluates, input.element_type = element_type_of_name("bool"), input.dims.emplace();
  model_.graph.inputs.push_back(std::move(input));
}

/// No warning if the request names a mode: its author knows the file.
void TrainingForm::warn_of_export() const {
  if (request_.mode || !inferring_ || has_dropout_) return;
  diags_.warning("train-eval-export", *inferring_,
                 "the file has the form for inference, in which exporters leave Dropout out; its BatchNormalization "
                 "nodes use the batch now; 'mode: train' in 'train:' says that this is meant, 'mode: eval' that they "
                 "keep their statistics");
}

std::optional<RunningStatistics> TrainingForm::run() {
  for (const OnnxTensor& tensor : model_.graph.initialisers) initialisers_.insert(tensor.name);
  for (const OnnxNode& node : model_.graph.nodes)
    if (node.domain.empty() && node.op_type == "Identity" && node.inputs.size() == 1 && node.outputs.size() == 1)
      copied_.emplace(node.outputs[0], node.inputs[0]);
  const int errors = diags_.errors();
  change(model_.graph.nodes, false);
  check_readers();
  if (diags_.errors() > errors) return {};
  warn_of_export();
  if (has_choice_) declare_evaluates();
  return statistics_;
}

}  // namespace

std::optional<RunningStatistics> put_into_training_form(OnnxModel& model, const Schedule& schedule, Diags& diags) {
  if (schedule.train->mode == TrainMode::Eval) return RunningStatistics{};
  return TrainingForm(model, schedule, diags).run();
}

}  // namespace weftc
