// A module's weight is the one constant of two or more dimensions that its nodes read. If they read several (an
// attention written as one module), none gets the name. A norm has constants of one dimension only: the first is its
// weight. The next constant of one dimension is the bias.
#include "frontend/module_paths.h"

#include <algorithm>
#include <set>
#include <unordered_map>
#include <unordered_set>

namespace weftc {

namespace {

/// Reads a quoted Python string, with escapes of quotes and backslashes. False if the text does not begin with one.
bool read_quoted(std::string_view& text, std::string& to) {
  if (text.empty() || (text[0] != '\'' && text[0] != '"')) return false;
  const char quote = text[0];
  to.clear();
  for (size_t i = 1; i < text.size(); ++i) {
    if (text[i] == quote) {
      text.remove_prefix(i + 1);
      return true;
    }
    if (text[i] == '\\' && i + 1 < text.size()) ++i;
    to += text[i];
  }
  return false;
}

bool is_real(int element_type) {
  const std::optional<DType> dtype = dtype_of_element_type(element_type);
  return dtype && is_float(*dtype);
}

/// Collects the modules of nodes, subgraphs included.
class AliasCollector {
 public:
  explicit AliasCollector(const OnnxModel& model) { take_names(model.graph); }

  void collect(const OnnxGraph& graph);
  Aliases take();

 private:
  void take_names(const OnnxGraph& graph);
  void add(const std::string& alias, const std::string& name);
  void add_constants(const OnnxNode& node);

  std::unordered_set<std::string> names_;  // of nodes and values
  std::unordered_map<std::string, const OnnxTensor*> constants_;
  Aliases aliases_;
  std::map<std::string, std::vector<const OnnxTensor*>> read_;  // by innermost path, in order of the nodes
  std::unordered_map<const OnnxTensor*, std::string> name_of_;
};

void AliasCollector::take_names(const OnnxGraph& graph) {
  for (const OnnxValue& input : graph.inputs) names_.insert(input.name);
  const auto constant = [&](const std::string& name, const OnnxTensor& tensor) {
    names_.insert(name);
    if (!is_real(tensor.element_type) || tensor.dims.empty()) return;
    constants_.emplace(name, &tensor);
    name_of_.emplace(&tensor, name);
  };
  for (const OnnxTensor& tensor : graph.initialisers) constant(tensor.name, tensor);
  for (const OnnxNode& node : graph.nodes) {
    names_.insert(node.name);
    names_.insert(node.outputs.begin(), node.outputs.end());
    const OnnxAttr* value = node.op_type == "Constant" ? node.find("value") : nullptr;
    if (value && !value->tensors.empty() && node.outputs.size() == 1) constant(node.outputs[0], value->tensors[0]);
    for (const OnnxAttr& attr : node.attrs)
      for (const OnnxGraph& inner : attr.graphs) take_names(inner);
  }
}

void AliasCollector::add(const std::string& alias, const std::string& name) {
  if (names_.contains(alias)) return;
  std::vector<std::string>& meant = aliases_[alias];
  if (meant.empty() || meant.back() != name) meant.push_back(name);
}

void AliasCollector::add_constants(const OnnxNode& node) {
  std::vector<const OnnxTensor*>& read = read_[node.modules.back()];
  for (const std::string& input : node.inputs) {
    const auto constant = constants_.find(input);
    if (constant == constants_.end()) continue;
    if (std::find(read.begin(), read.end(), constant->second) == read.end()) read.push_back(constant->second);
  }
}

void AliasCollector::collect(const OnnxGraph& graph) {
  for (const OnnxNode& node : graph.nodes) {
    const std::set<std::string> modules(node.modules.begin(), node.modules.end());
    for (const std::string& path : modules) add(path, shown_name(node));
    if (!node.modules.empty()) add_constants(node);
    for (const OnnxAttr& attr : node.attrs)
      for (const OnnxGraph& inner : attr.graphs) collect(inner);
  }
}

Aliases AliasCollector::take() {
  for (const auto& [path, read] : read_) {
    std::vector<std::string> matrices, rows;
    for (const OnnxTensor* tensor : read) (tensor->dims.size() > 1 ? matrices : rows).push_back(name_of_.at(tensor));
    if (matrices.size() == 1)
      add(path + ".weight", matrices[0]);
    else if (matrices.empty() && !rows.empty())
      add(path + ".weight", rows[0]);
    const size_t bias = matrices.empty() ? 1 : 0;
    if (rows.size() > bias && matrices.size() < 2) add(path + ".bias", rows[bias]);
  }
  return std::move(aliases_);
}

}  // namespace

std::optional<std::vector<std::string>> python_strings(std::string_view list) {
  std::vector<std::string> strings;
  list = trim(list);
  if (!list.starts_with('[') || !list.ends_with(']')) return {};
  list = trim(list.substr(1, list.size() - 2));
  while (!list.empty()) {
    if (!read_quoted(list, strings.emplace_back())) return {};
    list = trim(list);
    if (list.empty()) break;
    if (list[0] != ',') return {};
    list = trim(list.substr(1));
  }
  return strings;
}

std::vector<std::string> module_paths(std::string_view scopes) {
  std::vector<std::string> paths = python_strings(scopes).value_or(std::vector<std::string>{});
  if (!paths.empty()) paths.pop_back();
  std::erase(paths, "");
  return paths;
}

Aliases module_aliases(const OnnxModel& model) {
  AliasCollector collector(model);
  collector.collect(model.graph);
  return collector.take();
}

}  // namespace weftc
