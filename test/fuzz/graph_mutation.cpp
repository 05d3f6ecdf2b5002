// Changing one graph of a model.
#include <algorithm>
#include <iterator>

#include "ir/op_def.h"
#include "test/fuzz/mutation.h"

namespace weftc::fuzz {

namespace {

using Change = void (*)(onnx::GraphProto& graph, Dice& dice);

onnx::NodeProto* any_node(onnx::GraphProto& graph, Dice& dice) {
  return graph.node_size() == 0 ? nullptr : graph.mutable_node(dice.roll(graph.node_size()));
}

/// Readers of the first name read the second.
void rename_uses(onnx::GraphProto& graph, const std::string& from, const std::string& to) {
  for (onnx::NodeProto& node : *graph.mutable_node())
    for (std::string& name : *node.mutable_input())
      if (name == from) name = to;
}

void remove_node(onnx::GraphProto& graph, Dice& dice) {
  if (graph.node_size() < 2) return;
  const int at = dice.roll(graph.node_size());
  const onnx::NodeProto node = graph.node(at);
  graph.mutable_node()->DeleteSubrange(at, 1);
  if (node.input_size() > 0 && node.output_size() > 0) rename_uses(graph, node.output(0), node.input(0));
}

/// Mostly a value that is computed before the node, so that the graph has no circle.
void rewire(onnx::GraphProto& graph, Dice& dice) {
  if (graph.node_size() == 0) return;
  const int at = dice.roll(graph.node_size());
  onnx::NodeProto& node = *graph.mutable_node(at);
  onnx::GraphProto before = graph;
  if (dice.chance(95)) before.mutable_node()->DeleteSubrange(at, graph.node_size() - at);
  const std::vector<std::string> names = value_names(before);
  if (names.empty()) return;
  const std::string& name = dice.pick(names);
  if (node.input_size() == 0 || dice.chance(3))
    node.add_input(name);
  else
    node.set_input(dice.roll(node.input_size()), dice.chance(3) ? "" : name);
}

/// One operand fewer, one result more or fewer.
void change_arity(onnx::GraphProto& graph, Dice& dice) {
  onnx::NodeProto* node = any_node(graph, dice);
  if (!node) return;
  const int what = dice.roll(3);
  if (what == 0 && node->input_size() > 0) node->mutable_input()->RemoveLast();
  if (what == 1) node->add_output("more" + std::to_string(dice.roll(1000)));
  if (what == 2 && node->output_size() > 1) node->mutable_output()->RemoveLast();
}

/// Adds a copy of a node after it; readers of the node now read the copy.
void repeat_node(onnx::GraphProto& graph, Dice& dice) {
  if (graph.node_size() == 0) return;
  const int at = dice.roll(graph.node_size());
  onnx::NodeProto copy = graph.node(at);
  if (copy.output_size() == 0 || copy.input_size() == 0) return;
  const std::string result = copy.output(0), again = result + "_" + std::to_string(dice.roll(100));
  rename_uses(graph, result, again);
  copy.set_input(dice.roll(copy.input_size()), result);
  for (std::string& name : *copy.mutable_output()) name += "_" + std::to_string(dice.roll(100));
  copy.set_output(0, again);
  copy.set_name(copy.name() + "_again");
  *graph.add_node() = copy;
  for (int k = graph.node_size() - 1; k > at + 1; --k) graph.mutable_node()->SwapElements(k, k - 1);
}

/// Turns a node into another operator with a valid number of operands, often one value for all, so that their shapes
/// agree. Required attributes are set.
void become(onnx::NodeProto& node, const OpDef& def, const std::vector<std::string>& names, Dice& dice) {
  node.set_op_type(def.onnx.name);
  node.set_domain(def.onnx.domain);
  const int least = std::max(def.inputs.min, 1),
            most = def.inputs.max < 0 ? least + 2 : std::max(def.inputs.max, least);
  const int operands = least + (dice.chance(30) ? dice.roll(most - least + 1) : 0);
  if (node.input_size() > most) node.mutable_input()->DeleteSubrange(most, node.input_size() - most);
  const bool is_one_value = dice.chance(40);
  while (!names.empty() && node.input_size() < operands) {
    const bool again = is_one_value && node.input_size() > 0;
    const std::string name = again ? node.input(0) : dice.pick(names);
    node.add_input(name);
  }
  add_required_attributes(node, names, dice);
}

/// A node of any operator that is read, from values there are; its result is read instead of one of them.
void insert_node(onnx::GraphProto& graph, Dice& dice) {
  const OpDef& def = *dice.pick(all_op_defs());
  if (std::string_view(def.onnx.name).empty()) return;
  const int at = dice.roll(graph.node_size() + 1);
  onnx::GraphProto before = graph;
  before.mutable_node()->DeleteSubrange(at, graph.node_size() - at);
  const std::vector<std::string> names = value_names(before);
  if (names.empty()) return;
  onnx::NodeProto node;
  node.set_name("new" + std::to_string(dice.roll(1000)));
  become(node, def, names, dice);
  node.add_output(node.name());
  if (dice.chance(30)) change_attribute(node, dice);
  if (dice.chance(80)) rename_uses(graph, node.input(0), node.name());
  *graph.add_node() = node;
  for (int k = graph.node_size() - 1; k > at; --k) graph.mutable_node()->SwapElements(k, k - 1);
  if (dice.chance(30)) graph.add_output()->set_name(node.name());
}

void change_operator(onnx::GraphProto& graph, Dice& dice) {
  onnx::NodeProto* node = any_node(graph, dice);
  const OpDef& def = *dice.pick(all_op_defs());
  if (!node || std::string_view(def.onnx.name).empty()) return;
  const std::vector<std::string> operands(node->input().begin(), node->input().end());
  become(*node, def, operands.empty() ? value_names(graph) : operands, dice);
}

void change_some_attribute(onnx::GraphProto& graph, Dice& dice) {
  if (onnx::NodeProto* node = any_node(graph, dice)) change_attribute(*node, dice);
}

int32_t any_type(Dice& dice) {
  static const std::vector<int32_t> kTypes = {
      onnx::TensorProto::FLOAT,   onnx::TensorProto::INT64,  onnx::TensorProto::INT32, onnx::TensorProto::BOOL,
      onnx::TensorProto::FLOAT16, onnx::TensorProto::DOUBLE, onnx::TensorProto::UINT8, onnx::TensorProto::BFLOAT16,
      onnx::TensorProto::INT8,    onnx::TensorProto::STRING};
  return dice.chance(60) ? kTypes[static_cast<size_t>(dice.roll(4))] : dice.pick(kTypes);
}

/// A tensor becomes a list of such tensors, or one that may be absent.
void wrap_type(onnx::TypeProto& type, Dice& dice) {
  const onnx::TypeProto element = type;
  if (dice.chance(50))
    *type.mutable_sequence_type()->mutable_elem_type() = element;
  else
    *type.mutable_optional_type()->mutable_elem_type() = element;
}

void change_input(onnx::GraphProto& graph, Dice& dice) {
  if (graph.input_size() == 0) return;
  onnx::TypeProto& whole = *graph.mutable_input(dice.roll(graph.input_size()))->mutable_type();
  if (dice.chance(3)) return wrap_type(whole, dice);
  auto* type = whole.mutable_tensor_type();
  auto* dims = type->mutable_shape()->mutable_dim();
  const int what = dice.roll(10);
  if (what == 0)
    type->set_elem_type(any_type(dice));
  else if (what == 1)
    dims->Add()->set_dim_value(1 + dice.roll(4));
  else if (what == 2 && !dims->empty())
    dims->RemoveLast();
  else if (what == 3 && dims->size() > 1)
    dims->SwapElements(0, dims->size() - 1);
  else if (!dims->empty())
    dims->Mutable(dice.roll(dims->size()))->set_dim_value(dice.chance(95) ? dice.roll(9) : dice.number());
}

/// Values of integers are shapes, axes, indices; of others the bytes say enough.
void change_constant(onnx::TensorProto& tensor, Dice& dice) {
  const int what = dice.roll(10);
  if (what == 0)
    tensor.set_data_type(any_type(dice));
  else if (what == 1 && tensor.dims_size() > 0)
    tensor.set_dims(dice.roll(tensor.dims_size()), dice.number());
  else if (what == 2)
    tensor.add_dims(1);
  else if (tensor.int64_data_size() > 0)
    tensor.set_int64_data(dice.roll(tensor.int64_data_size()), dice.number());
  else if (tensor.data_type() == onnx::TensorProto::INT64 && tensor.raw_data().size() >= 8) {
    const int64_t number = dice.number();
    const int at = dice.roll(static_cast<int>(tensor.raw_data().size() / 8));
    std::copy_n(reinterpret_cast<const char*>(&number), 8, tensor.mutable_raw_data()->begin() + at * 8);
  } else if (!tensor.raw_data().empty()) {
    const int at = dice.roll(static_cast<int>(tensor.raw_data().size()));
    (*tensor.mutable_raw_data())[static_cast<size_t>(at)] = static_cast<char>(dice.roll(256));
  }
}

void change_some_constant(onnx::GraphProto& graph, Dice& dice) {
  std::vector<onnx::TensorProto*> tensors;
  for (onnx::TensorProto& tensor : *graph.mutable_initializer()) tensors.push_back(&tensor);
  for (onnx::NodeProto& node : *graph.mutable_node())
    for (onnx::AttributeProto& attribute : *node.mutable_attribute())
      if (attribute.has_t()) tensors.push_back(attribute.mutable_t());
  if (!tensors.empty()) change_constant(*dice.pick(tensors), dice);
}

/// A constant is known at run time only.
void make_input(onnx::GraphProto& graph, Dice& dice) {
  if (graph.initializer_size() == 0) return;
  const int at = dice.roll(graph.initializer_size());
  const onnx::TensorProto tensor = graph.initializer(at);
  graph.mutable_initializer()->DeleteSubrange(at, 1);
  const auto is_it = [&](const onnx::ValueInfoProto& input) { return input.name() == tensor.name(); };
  if (std::any_of(graph.input().begin(), graph.input().end(), is_it)) return;
  onnx::ValueInfoProto* input = graph.add_input();
  input->set_name(tensor.name());
  input->mutable_type()->mutable_tensor_type()->set_elem_type(tensor.data_type());
  auto* shape = input->mutable_type()->mutable_tensor_type()->mutable_shape();
  for (const int64_t dim : tensor.dims()) shape->add_dim()->set_dim_value(dim);
}

/// A value becomes a result of the model; its type is for the compiler to find.
void add_output(onnx::GraphProto& graph, Dice& dice) {
  const std::vector<std::string> names = value_names(graph);
  if (!names.empty()) graph.add_output()->set_name(dice.pick(names));
  if (graph.output_size() > 2 && dice.chance(50)) graph.mutable_output()->DeleteSubrange(0, 1);
}

/// Removes declared types of outputs, since the compiler infers types.
void forget_output_types(onnx::GraphProto& graph, Dice&) {
  for (onnx::ValueInfoProto& output : *graph.mutable_output()) output.clear_type();
  graph.clear_value_info();
}

constexpr Change kChanges[] = {remove_node,
                               rewire,
                               rewire,
                               repeat_node,
                               insert_node,
                               insert_node,
                               insert_node,
                               insert_node,
                               change_operator,
                               change_operator,
                               change_input,
                               change_input,
                               change_some_attribute,
                               change_some_attribute,
                               change_some_constant,
                               change_some_constant,
                               make_input,
                               add_output,
                               forget_output_types,
                               change_arity};

}  // namespace

void change_graph(onnx::GraphProto& graph, Dice& dice) {
  kChanges[static_cast<size_t>(dice.roll(static_cast<int>(std::size(kChanges))))](graph, dice);
}

}  // namespace weftc::fuzz
