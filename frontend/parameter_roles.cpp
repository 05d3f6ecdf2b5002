#include "frontend/parameter_roles.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <unordered_map>
#include <unordered_set>

#include "frontend/sort_nodes.h"
#include "frontend/tensor_bytes.h"
#include "ir/tensor.h"

namespace weftc {

namespace {

using OpNames = std::set<std::string>;

/// These ops copy their first operand to other positions.
const OpNames kViews{"Transpose", "Reshape",  "Unsqueeze", "Squeeze", "Flatten", "Cast",
                     "CastLike",  "Identity", "Slice",     "Split",   "Expand",  "Tile"};

/// Number of leading operands that can be parameters of a layer; later operands control how it is computed.
size_t layer_operands(const OnnxNode& node, bool is_scalar) {
  static const std::unordered_map<std::string, size_t> kLayers{
      {"MatMul", 2},
      {"Gemm", 3},
      {"Einsum", 64},
      {"Conv", 3},
      {"ConvTranspose", 3},
      {"DeformConv", 4},
      {"CausalConvWithState", 3},
      {"LSTM", 8},
      {"GRU", 6},
      {"RNN", 6},
      {"LayerNormalization", 3},
      {"RMSNormalization", 2},
      {"GroupNormalization", 3},
      {"InstanceNormalization", 3},
      {"BatchNormalization", 3},
      {"PRelu", 2},
      {"Attention", 3},
      // of com.microsoft, where others than these have weights among all operands
      {"MultiHeadAttention", 4},
      {"GroupQueryAttention", 3},
      {"RotaryEmbedding", 0},
      {"GemmaRotaryEmbedding", 0},
  };
  const auto known = kLayers.find(node.op_type);
  if (known != kLayers.end()) return known->second;
  return node.domain == "com.microsoft" && !is_scalar ? node.inputs.size() : 0;
}

/// TensorFlow's names end in the number of a result. Its variables are read by ReadVariableOp; other scalars are
/// numbers of formulas, such as `gelu/mul/x:0`.
bool is_number_of_tensorflow(const std::string& name) {
  return name.find(':') != std::string::npos && name.find("ReadVariableOp") == std::string::npos;
}

/// Common names of buffers: the part of a name after its last dot or slash.
bool is_known_buffer(const std::string& name) {
  static const std::set<std::string> kBuffers{"running_mean", "running_var", "moving_mean", "moving_variance",
                                              "inv_freq",     "cos_cached",  "sin_cached",  "freqs_cis",
                                              "weight_u",     "_u",          "_v"};
  return kBuffers.contains(name.substr(name.find_last_of("./") + 1));
}

size_t wide_dims(const OnnxTensor& tensor) {
  return static_cast<size_t>(std::ranges::count_if(tensor.dims, [](int64_t dim) { return dim > 1; }));
}

/// True for a table of A cos(k a + b) in rows k = 0, 1, 2, ..., with an angle a for each column. Each row is then 2 cos
/// a times the previous row, minus the one before that.
bool is_of_waves(const Tensor& table, int64_t rows, int64_t columns) {
  constexpr double kNear = 1e-3, kNothing = 1e-6;
  if (rows < 4) return false;
  bool varies = false;
  for (int64_t c = 0; c < columns; ++c) {
    const auto at = [&](int64_t row) { return table.at(row * columns + c); };
    varies |= std::abs(at(1) - at(0)) > kNothing;
    if (std::abs(at(1)) < kNothing) continue;
    const double twice = (at(2) + at(0)) / at(1);
    if (std::abs(twice) > 2 + kNear) return false;
    for (int64_t row = 3; row < std::min<int64_t>(rows, 8); ++row)
      if (std::abs(at(row) - (twice * at(row - 1) - at(row - 2))) > kNear) return false;
  }
  return varies;
}

/// True if the first row is one number, as cosines and sines of position 0 are, or if the table has at most two
/// numbers.
bool is_uniform(const Tensor& table, int64_t rows, int64_t columns) {
  std::set<double> first, all;
  for (int64_t c = 0; c < columns && first.size() < 2; ++c) first.insert(table.at(c));
  for (int64_t i = 0; i < rows * columns && all.size() < 3; ++i) all.insert(table.at(i));
  return first.size() < 2 || all.size() < 3;
}

/// True for a table that masks scores by addition: it has infinities, or large numbers in their place.
bool is_mask(const Tensor& table) {
  constexpr double kLarge = 1e3;
  for (int64_t i = 0; i < table.size(); ++i)
    if (!(std::abs(table.at(i)) < kLarge)) return true;
  return false;
}

}  // namespace

class ParameterRoles::Judge {
 public:
  explicit Judge(OnnxModel& model) : bytes_(model, unread_) {
    for (const OnnxTensor& tensor : model.graph.initialisers) constants_.insert(tensor.name);
    take(model.graph);
    for (const OnnxNode* node : nodes_)
      if (node->op_type != "Constant" && is_of_constants(*node))
        for (const std::string& output : node->outputs) constants_.insert(output);
  }

  bool is_parameter(const OnnxTensor& tensor) {
    if (is_known_buffer(tensor.name)) return false;
    is_named_ = !is_exporters_name(tensor.name);
    seen_.clear();
    return (is_named_ || !tensor.dims.empty()) && reaches(tensor, tensor.name, false);
  }

  bool is_named_factor(const OnnxTensor& tensor) const {
    const std::string& name = tensor.name;
    return !is_known_buffer(name) && !is_exporters_name(name) && !is_number_of_tensorflow(name) && is_factor(name, 0);
  }

 private:
  struct Reader {
    const OnnxNode* node;
    size_t operand;
  };

  void take(const OnnxGraph& graph);
  bool is_of_constants(const OnnxNode& node) const;
  bool reaches(const OnnxTensor& tensor, const std::string& value, bool is_computed);
  bool is_read_as_parameter(const OnnxTensor& tensor, const Reader& reader, bool is_computed);
  bool is_factor(const OnnxTensor& tensor, const Reader& reader, bool is_computed);
  bool is_factor(const std::string& value, int depth) const;
  bool is_summand(const OnnxTensor& tensor, const Reader& reader);
  bool is_of_positions(const Reader& reader) const;
  bool is_from_whole_numbers(const std::string& value, int depth) const;
  bool leads_to_wave(const std::string& value, int depth) const;
  bool is_of_layer(const Reader& reader) const;
  std::optional<Tensor> elements_of(const OnnxTensor& tensor);
  using Looks = bool (*)(const Tensor& table, int64_t rows, int64_t columns);
  bool is_table_of_waves(const OnnxTensor& tensor, Looks or_looks = is_of_waves);

  Diags unread_;  // the importer reports tensors that cannot be read
  TensorBytes bytes_;
  std::vector<const OnnxNode*> nodes_;  // in order, including those of subgraphs
  std::unordered_map<std::string, std::vector<Reader>> readers_;
  std::unordered_map<std::string, const OnnxNode*> makers_;
  std::unordered_set<std::string> constants_;  // values computed from initialisers only
  std::unordered_set<std::string> seen_;
  bool is_named_ = false;  // a module names it
};

void ParameterRoles::Judge::take(const OnnxGraph& graph) {
  for (const OnnxNode& node : graph.nodes) {
    nodes_.push_back(&node);
    for (size_t i = 0; i < node.inputs.size(); ++i) readers_[node.inputs[i]].push_back({&node, i});
    for (const std::string& output : node.outputs) makers_.emplace(output, &node);
    if (node.op_type == "Constant") constants_.insert(node.outputs.begin(), node.outputs.end());
    for (const OnnxAttr& attr : node.attrs)
      for (const OnnxGraph& inner : attr.graphs) take(inner);
  }
}

bool ParameterRoles::Judge::is_of_constants(const OnnxNode& node) const {
  return !node.inputs.empty() && std::ranges::all_of(node.inputs, [&](const std::string& input) {
    return input.empty() || constants_.contains(input);
  });
}

/// True if a value is read as a parameter. The value is the tensor, or is computed from it and other constants.
bool ParameterRoles::Judge::reaches(const OnnxTensor& tensor, const std::string& value, bool is_computed) {
  if (!seen_.insert(value).second) return false;
  const auto readers = readers_.find(value);
  return readers != readers_.end() && std::ranges::any_of(readers->second, [&](const Reader& reader) {
           return is_read_as_parameter(tensor, reader, is_computed);
         });
}

bool ParameterRoles::Judge::is_read_as_parameter(const OnnxTensor& tensor, const Reader& reader, bool is_computed) {
  const OnnxNode& node = *reader.node;
  const auto goes_on = [&](bool computed) {
    return std::ranges::any_of(node.outputs,
                               [&](const std::string& output) { return reaches(tensor, output, computed); });
  };
  const bool is_scalar = tensor.dims.empty();
  if (reader.operand < layer_operands(node, is_scalar)) return wide_dims(tensor) > 1 || !is_of_positions(reader);
  if (kViews.contains(node.op_type)) return reader.operand == 0 && goes_on(is_computed);
  if (is_of_constants(node)) return !is_scalar && goes_on(true);  // a bound or a fill value of computed weights
  const bool is_wide = wide_dims(tensor) > 0;
  if (node.op_type == "Gather") return reader.operand == 0 && is_wide && !is_table_of_waves(tensor);
  if (node.op_type == "Mul") return is_factor(tensor, reader, is_computed);
  if (node.op_type == "Add" || node.op_type == "Sum") return !is_scalar && is_summand(tensor, reader);
  // A model's own tokens: put before others, or in place of masked ones.
  if (node.op_type == "Concat") return is_named_ && is_wide;
  if (node.op_type == "Where") return is_named_ && is_wide && reader.operand > 0;
  return false;
}

/// A vector scales channels. A table scales each element, unless it rotates (rotary positions) or masks.
bool ParameterRoles::Judge::is_factor(const OnnxTensor& tensor, const Reader& reader, bool is_computed) {
  if (wide_dims(tensor) == 0 || is_of_positions(reader)) return false;
  if (wide_dims(tensor) == 1) return is_named_ || is_of_layer(reader);
  return is_named_ && (is_computed || !is_table_of_waves(tensor, is_uniform));
}

/// True if the value, or one computed from it and other constants, is multiplied by the model's values or added to
/// them.
bool ParameterRoles::Judge::is_factor(const std::string& value, int depth) const {
  constexpr int kFar = 16;
  static const OpNames kArithmetic{"Mul", "Div", "Add", "Sub", "Sum"};
  const auto readers = readers_.find(value);
  if (readers == readers_.end() || depth > kFar) return false;
  return std::ranges::any_of(readers->second, [&](const Reader& reader) {
    const OnnxNode& node = *reader.node;
    const bool is_constant = is_of_constants(node), goes_on = is_constant || kViews.contains(node.op_type);
    if (!goes_on) return kArithmetic.contains(node.op_type);
    return std::ranges::any_of(node.outputs, [&](const std::string& made) { return is_factor(made, depth + 1); });
  });
}

/// A bias, or a table of positions.
bool ParameterRoles::Judge::is_summand(const OnnxTensor& tensor, const Reader& reader) {
  if (wide_dims(tensor) < 2) return (is_named_ && wide_dims(tensor) > 0) || is_of_layer(reader);
  if (!is_named_ || is_table_of_waves(tensor)) return false;
  const std::optional<Tensor> elements = elements_of(tensor);
  return elements && !is_mask(*elements);
}

/// Frequencies are multiplied by positions, and the product is read by sines and cosines.
bool ParameterRoles::Judge::is_of_positions(const Reader& reader) const {
  const OnnxNode& node = *reader.node;
  if (node.op_type != "Mul" && node.op_type != "MatMul" && node.op_type != "Einsum") return false;
  for (size_t i = 0; i < node.inputs.size(); ++i)
    if (i != reader.operand && !is_from_whole_numbers(node.inputs[i], 0)) return false;
  return leads_to_wave(node.outputs.empty() ? "" : node.outputs[0], 0);
}

/// True for the result of Range or a Cast, for constants, and for views of these.
bool ParameterRoles::Judge::is_from_whole_numbers(const std::string& value, int depth) const {
  constexpr int kFar = 16;
  if (constants_.contains(value)) return true;
  const auto maker = makers_.find(value);
  if (maker == makers_.end() || depth > kFar || maker->second->inputs.empty()) return false;
  const OnnxNode& node = *maker->second;
  if (node.op_type == "Range" || node.op_type == "Cast") return true;
  return kViews.contains(node.op_type) && is_from_whole_numbers(node.inputs[0], depth + 1);
}

bool ParameterRoles::Judge::leads_to_wave(const std::string& value, int depth) const {
  constexpr int kFar = 8;
  const auto readers = readers_.find(value);
  if (readers == readers_.end() || depth > kFar) return false;
  return std::ranges::any_of(readers->second, [&](const Reader& reader) {
    const OnnxNode& node = *reader.node;
    if (node.op_type == "Sin" || node.op_type == "Cos") return true;
    const bool passes = kViews.contains(node.op_type) || node.op_type == "Concat";
    return passes && std::ranges::any_of(node.outputs,
                                         [&](const std::string& output) { return leads_to_wave(output, depth + 1); });
  });
}

/// The other operand is the result of a product or a norm. The tensor is then its bias or its scale, which an exporter
/// may have written with dims and a name of its own.
bool ParameterRoles::Judge::is_of_layer(const Reader& reader) const {
  static const OpNames kSums{"MatMul", "Gemm", "Einsum", "Conv", "ConvTranspose"};
  static const OpNames kNorms{"LayerNormalization", "InstanceNormalization", "GroupNormalization"};
  const bool is_sum = reader.node->op_type != "Mul";
  const auto is_made = [&](std::string value) {
    constexpr int kFar = 8;
    for (int depth = 0; depth < kFar; ++depth) {
      const auto maker = makers_.find(value);
      if (maker == makers_.end() || maker->second->inputs.empty()) return false;
      const OnnxNode& node = *maker->second;
      if (kNorms.contains(node.op_type)) return true;
      const bool has_weight = std::ranges::any_of(node.inputs, [&](const auto& in) { return constants_.contains(in); });
      if (is_sum && kSums.contains(node.op_type)) return has_weight;
      const bool is_scaled = is_sum && node.op_type == "Mul" && has_weight;
      if (!is_scaled && !kViews.contains(node.op_type)) return false;
      value = node.inputs[constants_.contains(node.inputs[0]) && node.inputs.size() > 1 ? 1 : 0];
    }
    return false;
  };
  for (size_t i = 0; i < reader.node->inputs.size(); ++i)
    if (i != reader.operand && is_made(reader.node->inputs[i])) return true;
  return false;
}

std::optional<Tensor> ParameterRoles::Judge::elements_of(const OnnxTensor& tensor) {
  const auto found = bytes_.find(tensor, "initializer", tensor.loc);
  if (!found) return {};
  return tensor_from_bytes(*dtype_of_element_type(tensor.element_type), tensor.dims, *found);
}

/// Checks for positions along the first dim that is longer than 1.
bool ParameterRoles::Judge::is_table_of_waves(const OnnxTensor& tensor, Looks or_looks) {
  const auto rows = std::ranges::find_if(tensor.dims, [](int64_t dim) { return dim > 1; });
  if (rows == tensor.dims.end() || wide_dims(tensor) < 2) return false;
  const std::optional<Tensor> elements = elements_of(tensor);
  const int64_t columns = elements ? elements->size() / *rows : 0;
  return elements && (is_of_waves(*elements, *rows, columns) || or_looks(*elements, *rows, columns));
}

bool is_exporters_name(const std::string& name) {
  const auto is_number = [](std::string_view text) {
    return !text.empty() && text.find_first_not_of("0123456789") == std::string_view::npos;
  };
  for (const std::string_view begin : {"val_", "_val_", "const_", "Constant_", ""})
    if (name.starts_with(begin) && is_number(std::string_view(name).substr(begin.size()))) return true;
  return name.starts_with("onnx::") || name.starts_with("/") || name.starts_with("const_fold_opt__") ||
         name.starts_with("ortshared_");
}

ParameterRoles::ParameterRoles(OnnxModel& model) : judge_(std::make_unique<Judge>(model)) {}
ParameterRoles::~ParameterRoles() = default;
bool ParameterRoles::is_parameter(const OnnxTensor& tensor) { return judge_->is_parameter(tensor); }
bool ParameterRoles::is_named_factor(const OnnxTensor& tensor) const { return judge_->is_named_factor(tensor); }

}  // namespace weftc
