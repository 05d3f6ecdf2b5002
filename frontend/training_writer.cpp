#include "frontend/training_writer.h"

#include <cstring>

#include "frontend/training_calls.h"

namespace weftc {

constexpr int kOpsetOfStep = 18;

OnnxAttr attr_of_int(const std::string& name, int64_t integer) {
  OnnxAttr attr;
  attr.name = name, attr.kind = OnnxAttr::Kind::Int, attr.integer = integer;
  return attr;
}

OnnxAttr attr_of_text(const std::string& name, const std::string& text) {
  OnnxAttr attr;
  attr.name = name, attr.kind = OnnxAttr::Kind::Text, attr.text = text;
  return attr;
}

OnnxAttr attr_of_ints(const std::string& name, std::vector<int64_t> ints) {
  OnnxAttr attr;
  attr.name = name, attr.kind = OnnxAttr::Kind::Ints, attr.ints = std::move(ints);
  return attr;
}

OnnxAttr attr_of_texts(const std::string& name, std::vector<std::string> texts) {
  OnnxAttr attr;
  attr.name = name, attr.kind = OnnxAttr::Kind::Texts, attr.texts = std::move(texts);
  return attr;
}

void TrainingWriter::add_for(const Loc& loc) {
  call_site_ = static_cast<int>(model_.call_sites.size());
  model_.call_sites.push_back(loc);
}

OnnxNode& TrainingWriter::add(const std::string& op_type, std::vector<std::string> inputs,
                              std::vector<std::string> outputs) {
  OnnxNode node;
  node.op_type = op_type, node.inputs = std::move(inputs), node.outputs = std::move(outputs);
  node.opset = kOpsetOfStep, node.call_site = call_site_;
  model_.graph.nodes.push_back(std::move(node));
  return model_.graph.nodes.back();
}

OnnxNode& TrainingWriter::call(const std::string& name, const std::string& domain, const std::string& function,
                               std::vector<std::string> inputs, std::vector<std::string> outputs) {
  OnnxNode& node = add(function, std::move(inputs), std::move(outputs));
  node.name = name, node.domain = domain, node.opset = 1;
  return node;
}

void TrainingWriter::add_scalar(const std::string& name, double value) {
  add("Constant", {}, {name}).attrs = {attr_of_real("value_float", value)};
}

TrainedState& TrainingWriter::add_state(const std::string& name, const std::string& next, int element_type,
                                        const Dims& dims) {
  OnnxValue input;
  input.name = name, input.element_type = element_type, input.dims.emplace();
  for (const int64_t dim : dims) input.dims->push_back({OnnxDim::Kind::Fixed, dim, ""});
  model_.graph.inputs.push_back(std::move(input));
  return states_.emplace_back(TrainedState{name, next, nullptr, ""});
}

void TrainingWriter::add_number(const std::string& name, const std::string& next, float first) {
  std::vector<std::byte> bytes(sizeof first);
  std::memcpy(bytes.data(), &first, sizeof first);
  OnnxTensor& tensor = model_.parameters.emplace_back();
  tensor.name = name, tensor.element_type = element_type_of_name("float"), tensor.bytes = model_.keep(std::move(bytes));
  add_state(name, next, tensor.element_type, {}).first = &tensor;
}

}  // namespace weftc
