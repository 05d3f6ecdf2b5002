// Records read an operator of all opsets, with the attributes of each. This table lists the opsets in which an operator
// lacks an attribute. A model that has one anyway means another opset than it names. Without the table, SpaceToDepth of
// opset 13 would read `mode`, which belongs to opset 28. A test compares the table with the schemas of the onnx
// package.
#include "frontend/attribute_opsets.h"

#include <algorithm>
#include <map>
#include <optional>
#include <sstream>

#include "frontend/onnx_ops.h"

namespace weftc {

namespace {

constexpr int kNever = INT32_MAX;

/// Operators and attributes, separated by spaces; the first opset that has them, and the first that no longer has them.
struct Row {
  const char* ops;
  const char* attrs;
  int first;
  int end = kNever;
};

constexpr Row kRows[] = {
    {"ArgMax ArgMin", "select_last_index", 12},
    {"Attention", "left_window_size right_window_size", 25},
    {"AveragePool", "ceil_mode", 10},
    {"AveragePool", "count_include_pad", 7},
    {"AveragePool", "dilations", 19},
    {"BatchNormalization", "spatial", 1, 9},
    {"BatchNormalization", "training_mode", 14},
    {"Cast CastLike", "round_mode", 24},
    {"Cast CastLike", "saturate", 19},
    {"Clip", "max min", 1, 11},
    {"DFT", "axis", 17, 20},
    {"DepthToSpace", "mode", 11},
    {"DequantizeLinear", "output_dtype", 23},
    {"DequantizeLinear QuantizeLinear", "axis", 13},
    {"DequantizeLinear QuantizeLinear", "block_size", 21},
    {"Dropout", "ratio", 1, 12},
    {"Dropout", "seed", 12},
    {"GRU", "linear_before_reset", 3},
    {"GRU LSTM RNN", "layout", 14},
    {"GatherND", "batch_dims", 12},
    {"GroupNormalization", "stash_type", 21},
    {"LpPool", "ceil_mode dilations", 18},
    {"MaxPool", "ceil_mode dilations", 10},
    {"MaxPool", "storage_order", 8},
    {"Pad", "pads", 2, 11},
    {"Pad", "value", 1, 11},
    {"QuantizeLinear", "output_dtype", 21},
    {"QuantizeLinear", "precision", 23},
    {"QuantizeLinear", "saturate", 19},
    {"Range", "stash_type", 27},
    {"ReduceL1 ReduceL2 ReduceLogSum ReduceLogSumExp ReduceMax ReduceMean ReduceMin ReduceProd ReduceSumSquare", "axes",
     1, 18},
    {"ReduceL1 ReduceL2 ReduceLogSum ReduceLogSumExp ReduceMax ReduceMean ReduceMin ReduceProd ReduceSumSquare",
     "noop_with_empty_axes", 18},
    {"ReduceSum", "axes", 1, 13},
    {"ReduceSum", "noop_with_empty_axes", 13},
    {"Reshape", "allowzero", 14},
    {"Reshape", "shape", 1, 5},
    {"Resize", "antialias axes keep_aspect_ratio_policy", 18},
    {"Resize", "coordinate_transformation_mode cubic_coeff_a exclude_outside extrapolation_value nearest_mode", 11},
    {"RoiAlign", "coordinate_transformation_mode", 16},
    {"Scan", "directions", 8, 9},
    {"Scan", "scan_input_axes scan_input_directions scan_output_axes scan_output_directions", 9},
    {"ScatterElements ScatterND", "reduction", 16},
    {"Shape", "end start", 15},
    {"Slice", "axes ends starts", 1, 10},
    {"SpaceToDepth", "mode", 28},
    {"Split", "num_outputs", 18},
    {"Split", "split", 1, 13},
    {"Squeeze Unsqueeze", "axes", 1, 13},
    {"TopK", "k", 1, 10},
    {"TopK", "largest sorted", 11},
    {"Upsample", "scales", 7, 9},
    {"ai.onnx.ml.LabelEncoder", "classes_strings", 1, 2},
    {"ai.onnx.ml.LabelEncoder",
     "default_float keys_floats keys_int64s keys_strings values_floats values_int64s values_strings", 2},
    {"ai.onnx.ml.LabelEncoder", "default_tensor keys_tensor values_tensor", 4},
    {"ai.onnx.ml.TreeEnsembleClassifier",
     "base_values_as_tensor class_weights_as_tensor nodes_hitrates_as_tensor nodes_values_as_tensor", 3},
    {"ai.onnx.ml.TreeEnsembleRegressor",
     "base_values_as_tensor nodes_hitrates_as_tensor nodes_values_as_tensor target_weights_as_tensor", 3},
    // Attributes that records have for operands of another opset, or for an operator of another name.
    {"CenterCropPad Expand RandomNormalLike", "shape", kNever},
    {"Col2Im", "block_shape image_shape", kNever},
    {"CumProd CumSum", "axis", kNever},
    {"DFT", "dft_length", kNever},
    {"DeformConv", "auto_pad", kNever},
    {"DequantizeLinear", "precision saturate", kNever},
    {"Dropout", "training_mode", kNever},
    {"Hardmax LogSoftmax Softmax", "flatten", kNever},
    {"MaxUnpool", "output_shape", kNever},
    {"Resize", "roi scales sizes", kNever},
    {"STFT", "frame_length frame_step", kNever},
    {"Scatter", "reduction", kNever},
    {"Slice", "steps", kNever},
    {"Tile", "repeats", kNever},
    {"Trilu", "k", kNever},
    {"Upsample",
     "antialias axes coordinate_transformation_mode cubic_coeff_a exclude_outside extrapolation_value "
     "keep_aspect_ratio_policy nearest_mode roi sizes",
     kNever},
};

using Spans = std::map<std::pair<std::string, std::string>, const Row*>;

std::vector<std::string> words_of(const char* text) {
  std::istringstream stream(text);
  std::vector<std::string> words;
  for (std::string word; stream >> word;) words.push_back(word);
  return words;
}

const Spans& spans() {
  static const Spans all = [] {
    Spans made;
    for (const Row& row : kRows)
      for (const std::string& op : words_of(row.ops))
        for (const std::string& attr : words_of(row.attrs)) made[{op, attr}] = &row;
    return made;
  }();
  return all;
}

/// The opsets that have the attribute, as a hint.
std::string where_it_is(const Row& row, int opset) {
  if (row.first == kNever) return "";
  return opset < row.first ? format(", only from {} on", row.first) : format(", only before {}", row.end);
}

bool check_nodes(const OnnxModel& model, const std::vector<OnnxNode>& nodes, bool trains, int& index, Diags& diags) {
  bool ok = true;
  for (const OnnxNode& node : nodes) {
    const int at = index++;
    for (const OnnxAttr& attr : node.attrs) {
      for (const OnnxGraph& graph : attr.graphs) ok &= check_nodes(model, graph.nodes, trains, index, diags);
      const auto span = spans().find({full_op_name(node), attr.name});
      if (span == spans().end() || (trains && attr.name == "training_mode")) continue;
      const Row& row = *span->second;
      if (node.opset >= row.first && node.opset < row.end) continue;
      diags.error("attribute-opset", model.loc(node, at), "{} has no attribute '{}' in opset {}{}", full_op_name(node),
                  printable(attr.name), node.opset, where_it_is(row, node.opset));
      ok = false;
    }
  }
  return ok;
}

}  // namespace

bool check_attribute_opsets(const OnnxModel& model, bool trains, Diags& diags) {
  int index = 0;
  return check_nodes(model, model.graph.nodes, trains, index, diags);
}

}  // namespace weftc
