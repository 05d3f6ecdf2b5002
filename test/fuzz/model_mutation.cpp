// Changing models as such: nodes go, are copied, read other values, have other attributes; inputs and constants have
// other types and shapes; dims are opened.
#include <algorithm>
#include <map>
#include <set>

#include "ir/op_def.h"
#include "test/fuzz/model_case.h"
#include "test/fuzz/mutation.h"

namespace weftc::fuzz {

int64_t Dice::number() {
  static const std::vector<int64_t> kOdd = {-1,    -2,        -9,        16,        127,       1024,
                                            65536, INT32_MAX, INT32_MIN, INT64_MAX, INT64_MIN, INT64_C(1) << 40};
  return chance(85) ? roll(6) : pick(kOdd);
}

std::vector<std::string> value_names(const onnx::GraphProto& graph) {
  std::vector<std::string> names;
  for (const auto& input : graph.input()) names.push_back(input.name());
  for (const auto& tensor : graph.initializer()) names.push_back(tensor.name());
  for (const auto& node : graph.node())
    for (const std::string& name : node.output())
      if (!name.empty()) names.push_back(name);
  return names;
}

namespace {

/// All graphs of a model: the main one and those that nodes own.
void collect_graphs(onnx::GraphProto& graph, std::vector<onnx::GraphProto*>& graphs) {
  graphs.push_back(&graph);
  for (onnx::NodeProto& node : *graph.mutable_node())
    for (onnx::AttributeProto& attribute : *node.mutable_attribute())
      if (attribute.has_g()) collect_graphs(*attribute.mutable_g(), graphs);
}

std::string& metadata(onnx::ModelProto& model, const char* key) {
  for (onnx::StringStringEntryProto& entry : *model.mutable_metadata_props())
    if (entry.key() == key) return *entry.mutable_value();
  onnx::StringStringEntryProto* entry = model.add_metadata_props();
  entry->set_key(key);
  return *entry->mutable_value();
}

/// A dim of an input becomes known at run time only, in all inputs that have as much of it if the dice say so.
void open_dim(onnx::ModelProto& model, Dice& dice) {
  if (model.graph().input_size() == 0) return;
  onnx::ValueInfoProto& input = *model.mutable_graph()->mutable_input(dice.roll(model.graph().input_size()));
  const auto& dims = input.type().tensor_type().shape().dim();
  if (dims.empty()) return;
  const onnx::TensorShapeProto::Dimension chosen = dims[dice.roll(dims.size())];
  if (!chosen.has_dim_value()) return;
  const std::string name = "n" + std::to_string(chosen.dim_value());
  for (onnx::ValueInfoProto& other : *model.mutable_graph()->mutable_input())
    for (auto& dim : *other.mutable_type()->mutable_tensor_type()->mutable_shape()->mutable_dim())
      if (dim.dim_value() == chosen.dim_value() && dice.chance(80)) dim.set_dim_param(name);
}

/// Gives every named dim a length or a bound, since otherwise no case would get past the reader. It is the schedule's,
/// the old one, or a new one.
void settle_dims(onnx::ModelProto& model, Dice& dice) {
  const std::vector<std::string> old = split(metadata(model, kDimsKey), ' ');
  const std::string schedule = metadata(model, kScheduleKey);
  std::map<std::string, std::string> flags;
  for (const onnx::ValueInfoProto& input : model.graph().input())
    for (const onnx::TensorShapeProto::Dimension& dim : input.type().tensor_type().shape().dim()) {
      const std::string& name = dim.dim_param();
      if (name.empty() || flags.contains(name) || schedule.find(name + ": \"<=") != std::string::npos) continue;
      const auto is_it = [&](const std::string& flag) { return flag.substr(0, flag.find_first_of("<=")) == name; };
      const auto found = std::find_if(old.begin(), old.end(), is_it);
      const std::string made = name + (dice.chance(70) ? "<=" : "=") + std::to_string(1 + dice.roll(9));
      flags[name] = found == old.end() || dice.chance(5) ? made : *found;
    }
  std::string& text = metadata(model, kDimsKey);
  text.clear();
  for (const auto& [name, flag] : flags) text += (text.empty() ? "" : " ") + flag;
}

/// Operators that were put in come from domains that the model need not have had.
void import_domains(onnx::ModelProto& model) {
  constexpr int kMlVersion = 3;
  std::set<std::string> known;
  for (const onnx::OperatorSetIdProto& import : model.opset_import()) known.insert(import.domain());
  for (const onnx::NodeProto& node : model.graph().node()) {
    if (!find_onnx_op(node.domain(), node.op_type()) || !known.insert(node.domain()).second) continue;
    onnx::OperatorSetIdProto* import = model.add_opset_import();
    import->set_domain(node.domain());
    import->set_version(node.domain() == "ai.onnx.ml" ? kMlVersion : 1);
  }
}

void change_opset(onnx::ModelProto& model, Dice& dice) {
  if (model.opset_import_size() == 0) return;
  model.mutable_opset_import(dice.roll(model.opset_import_size()))->set_version(7 + dice.roll(20));
}

void change_model(onnx::ModelProto& model, Dice& dice) {
  std::vector<onnx::GraphProto*> graphs;
  collect_graphs(*model.mutable_graph(), graphs);
  const int what = dice.roll(100);
  if (what < 62) return change_graph(*dice.pick(graphs), dice);
  if (what < 75) return open_dim(model, dice);
  if (what < 77) return change_opset(model, dice);
  if (what < 80) {
    metadata(model, kTargetKey) = dice.chance(50) ? "cuda" : "host";
    return;
  }
  std::string& schedule = metadata(model, kScheduleKey);
  schedule = changed_schedule(model.graph(), schedule, dice);
}

}  // namespace

std::string mutate_model(std::string_view bytes, Random& random) {
  onnx::ModelProto model;
  if (!model.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) return std::string(bytes);
  Dice dice(random);
  for (int changes = 1 + dice.roll(dice.chance(50) ? 1 : 4); changes > 0; --changes) change_model(model, dice);
  settle_dims(model, dice);
  import_domains(model);
  return model.SerializeAsString();
}

}  // namespace weftc::fuzz
