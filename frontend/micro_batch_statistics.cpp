#include "frontend/micro_batch_statistics.h"

#include <cmath>

#include "frontend/training_calls.h"
#include "frontend/training_writer.h"

namespace weftc {

namespace {

constexpr int kOpset = 18;  // of added nodes

/// Nodes that replace one of the model's nodes.
class NodesInPlace {
 public:
  explicit NodesInPlace(const OnnxNode& of) : of_(of) {}

  std::string add(const std::string& op_type, std::vector<std::string> inputs, const std::string& name,
                  std::vector<OnnxAttr> attrs = {}) {
    OnnxNode& node = nodes_.emplace_back();
    node.op_type = op_type, node.inputs = std::move(inputs), node.opset = kOpset, node.attrs = std::move(attrs);
    node.whole = shown_name(of_), node.modules = of_.modules, node.line = of_.line, node.column = of_.column;
    node.outputs = {of_.outputs[0] + ".parts/" + name};
    return node.outputs[0];
  }
  /// Adds a node for one of the results of the replaced node.
  void add_result(const std::string& op_type, std::vector<std::string> inputs, const std::string& name) {
    add(op_type, std::move(inputs), "");
    nodes_.back().outputs = {name};
  }
  std::string ints(std::vector<int64_t> values, const std::string& name) {
    return add("Constant", {}, name, {attr_of_ints("value_ints", std::move(values))});
  }
  /// A number of the element type of `like`.
  std::string real(double value, const std::string& like, const std::string& name) {
    return add("CastLike", {add("Constant", {}, name + ".real", {attr_of_real("value_float", value)}), like}, name);
  }
  std::vector<OnnxNode> take() { return std::move(nodes_); }

 private:
  const OnnxNode& of_;
  std::vector<OnnxNode> nodes_;
};

double real_of(const OnnxNode& node, const char* attr, double absent) {
  const OnnxAttr* found = node.find(attr);
  return found ? found->real : absent;
}

/// [count, samples of a micro-batch, channels, -1].
std::string dims_of_parts(NodesInPlace& to, const OnnxNode& node, const std::string& shape, int count) {
  const std::string number = to.ints({count}, "count");
  const std::string batch = to.add("Slice", {shape, to.ints({0}, "zero"), to.ints({1}, "one")}, "batch");
  const std::string samples = to.add("Div", {batch, number}, "samples");
  const std::string channels = to.add("Shape", {node.inputs[1]}, "channels");
  return to.add("Concat", {number, samples, channels, to.ints({-1}, "rest")}, "dims", {attr_of_int("axis", 0)});
}

/// Writes the running statistic after `count` steps. `values` has the statistics of the micro-batches in order.
void write_next(NodesInPlace& to, const std::string& running, const std::string& values, int count, double momentum,
                const std::string& next) {
  std::vector<double> weights;
  for (int i = 0; i < count; ++i) weights.push_back((1 - momentum) * std::pow(momentum, count - 1 - i));
  OnnxAttr attr;
  attr.name = "value_floats", attr.kind = OnnxAttr::Kind::Reals, attr.reals = std::move(weights);
  const std::string base = next + "/";
  const std::string flat = to.add("Constant", {}, base + "weights", {attr});
  const std::string like = to.add("CastLike", {flat, running}, base + "weights.like");
  const std::string each = to.add("Reshape", {like, to.ints({count, 1, 1, 1}, base + "dims")}, base + "weight");
  const std::string weighted = to.add("Mul", {values, each}, base + "weighted");
  const std::string sum =
      to.add("ReduceSum", {weighted, to.ints({0, 1, 3}, base + "axes")}, base + "sum", {attr_of_int("keepdims", 0)});
  const std::string kept =
      to.add("Mul", {running, to.real(std::pow(momentum, count), running, base + "kept")}, base + "rest");
  to.add_result("Add", {kept, sum}, next);
}

}  // namespace

std::vector<OnnxNode> normalize_micro_batches(const OnnxNode& node, int count, const std::string& evaluates) {
  NodesInPlace to(node);
  const std::string &scale = node.inputs[1], &bias = node.inputs[2], &mean = node.inputs[3], &variance = node.inputs[4];
  const std::string shape = to.add("Shape", {node.inputs[0]}, "shape");
  const std::string parts = to.add("Reshape", {node.inputs[0], dims_of_parts(to, node, shape, count)}, "in");
  const std::string axes = to.ints({1, 3}, "axes"), row = to.ints({1, 1, -1, 1}, "row");
  const std::string means = to.add("ReduceMean", {parts, axes}, "mean");
  const std::string centred = to.add("Sub", {parts, means}, "centred");
  const std::string squares = to.add("Mul", {centred, centred}, "squares");
  const std::string variances = to.add("ReduceMean", {squares, axes}, "variance");
  const auto chosen = [&](const std::string& running, const std::string& of_parts, const std::string& name) {
    return to.add("Where", {evaluates, to.add("Reshape", {running, row}, name + ".running"), of_parts}, name);
  };
  const std::string used = chosen(mean, means, "used_mean"), spread = chosen(variance, variances, "used_variance");
  const std::string epsilon = to.real(real_of(node, "epsilon", 1e-5), scale, "epsilon");
  const std::string deviation = to.add("Sqrt", {to.add("Add", {spread, epsilon}, "above")}, "deviation");
  const std::string normal = to.add("Div", {to.add("Sub", {parts, used}, "off"), deviation}, "normal");
  const std::string scaled = to.add("Mul", {normal, to.add("Reshape", {scale, row}, "scale")}, "scaled");
  const std::string moved = to.add("Add", {scaled, to.add("Reshape", {bias, row}, "bias")}, "out");
  to.add_result("Reshape", {moved, shape}, node.outputs[0]);
  const double momentum = real_of(node, "momentum", 0.9);
  write_next(to, mean, means, count, momentum, node.outputs[1]);
  write_next(to, variance, variances, count, momentum, node.outputs[2]);
  return to.take();
}

}  // namespace weftc
