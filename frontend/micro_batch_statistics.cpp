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

/// [slices,] count, samples, channels, -1. The first dim is absent if the batch lies whole on each rank.
struct Parts {
  int count, slices;

  int64_t micro_batches() const { return slices > 1 ? 1 : 0; }
  int64_t channels() const { return micro_batches() + 2; }
  int64_t ndim() const { return channels() + 2; }
  /// All 1 but for one dim.
  std::vector<int64_t> along(int64_t dim, int64_t extent) const {
    std::vector<int64_t> dims(static_cast<size_t>(ndim()), 1);
    dims[static_cast<size_t>(dim)] = extent;
    return dims;
  }
  /// All dims but the channels, and but the micro-batches if these stay apart.
  std::vector<int64_t> summed(bool are_apart) const {
    std::vector<int64_t> axes;
    for (int64_t d = 0; d < ndim(); ++d)
      if (d != channels() && !(are_apart && d == micro_batches())) axes.push_back(d);
    return axes;
  }
};

std::string dims_of_parts(NodesInPlace& to, const OnnxNode& node, const std::string& shape, const Parts& parts) {
  std::vector<int64_t> leading{parts.count};
  if (parts.slices > 1) leading.insert(leading.begin(), parts.slices);
  const std::string batch = to.add("Slice", {shape, to.ints({0}, "zero"), to.ints({1}, "one")}, "batch");
  const std::string number = to.ints({int64_t{parts.count} * parts.slices}, "number");
  const std::string samples = to.add("Div", {batch, number}, "samples");
  const std::string channels = to.add("Shape", {node.inputs[1]}, "channels");
  return to.add("Concat", {to.ints(leading, "count"), samples, channels, to.ints({-1}, "rest")}, "dims",
                {attr_of_int("axis", 0)});
}

/// Writes the running statistic after all micro-batches. `values` has their statistics in order.
void write_next(NodesInPlace& to, const std::string& running, const std::string& values, const Parts& parts,
                double momentum, const std::string& next) {
  const int count = parts.count;
  std::vector<double> weights;
  for (int i = 0; i < count; ++i) weights.push_back((1 - momentum) * std::pow(momentum, count - 1 - i));
  OnnxAttr attr;
  attr.name = "value_floats", attr.kind = OnnxAttr::Kind::Reals, attr.reals = std::move(weights);
  const std::string base = next + "/";
  const std::string flat = to.add("Constant", {}, base + "weights", {attr});
  const std::string like = to.add("CastLike", {flat, running}, base + "weights.like");
  const std::vector<int64_t> column = parts.along(parts.micro_batches(), count);
  const std::string each = to.add("Reshape", {like, to.ints(column, base + "dims")}, base + "weight");
  const std::string weighted = to.add("Mul", {values, each}, base + "weighted");
  const std::string axes = to.ints(parts.summed(false), base + "axes");
  const std::string sum = to.add("ReduceSum", {weighted, axes}, base + "sum", {attr_of_int("keepdims", 0)});
  const std::string kept =
      to.add("Mul", {running, to.real(std::pow(momentum, count), running, base + "kept")}, base + "rest");
  to.add_result("Add", {kept, sum}, next);
}

}  // namespace

std::vector<OnnxNode> normalize_micro_batches(const OnnxNode& node, int count, int slices,
                                              const std::string& evaluates) {
  NodesInPlace to(node);
  const Parts form{count, slices};
  const std::string &scale = node.inputs[1], &bias = node.inputs[2], &mean = node.inputs[3], &variance = node.inputs[4];
  const std::string shape = to.add("Shape", {node.inputs[0]}, "shape");
  const std::string parts = to.add("Reshape", {node.inputs[0], dims_of_parts(to, node, shape, form)}, "in");
  const std::string axes = to.ints(form.summed(true), "axes");
  const std::string row = to.ints(form.along(form.channels(), -1), "row");
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
  write_next(to, mean, means, form, momentum, node.outputs[1]);
  write_next(to, variance, variances, form, momentum, node.outputs[2]);
  return to.take();
}

}  // namespace weftc
