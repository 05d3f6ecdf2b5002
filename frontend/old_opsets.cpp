// Differences between opsets 1 to 6 of ai.onnx and opset 7: a table of operators, and a rule for each that changed.
//
//   opset 6: Add<axis = 1, broadcast = 1>(x, bias)
//   opset 7: Add(x, weft.AlignedOperand<axis = 1, broadcast = 1>(x, bias))
//
// AlignedOperand (ir/ops/arrange.cpp) knows the shapes, which are not known here.
#include "frontend/old_opsets.h"

#include <cctype>
#include <map>
#include <optional>
#include <sstream>

namespace weftc {

namespace {

/// One node that is being converted to opset 7. A rule returns false after reporting.
class OldNode {
 public:
  OldNode(const OnnxModel& model, OnnxNode& node, int index, std::vector<OnnxNode>& before, Diags& diags)
      : model_(model), node_(node), index_(index), before_(before), diags_(diags) {}

  OnnxNode& node() { return node_; }
  int opset() const { return node_.opset; }
  const OnnxAttr* find(const char* name) const { return node_.find(name); }
  /// An integer attribute, or `otherwise` if it is absent.
  int64_t integer(const char* name, int64_t otherwise) const {
    const OnnxAttr* attr = find(name);
    return attr && attr->kind == OnnxAttr::Kind::Int ? attr->integer : otherwise;
  }
  void remove(std::string_view name) {
    std::erase_if(node_.attrs, [&](const OnnxAttr& attr) { return attr.name == name; });
  }
  void rename(const char* from, const char* to) {
    for (OnnxAttr& attr : node_.attrs)
      if (attr.name == from) attr.name = to;
  }
  void set(const char* name, int64_t value);
  void set(const char* name, double value);
  void set(const char* name, std::vector<double> values);
  /// Passes operand 1 through an AlignedOperand with this axis (none: the last dimensions) and flag.
  void align(std::optional<int64_t> axis, int64_t broadcast);
  bool fail(const std::string& id, const std::string& what) {
    diags_.error(id, model_.loc(node_, index_), "{} of opset {}: {}", node_.op_type, node_.opset, what);
    return false;
  }

 private:
  OnnxAttr& fresh(const char* name, OnnxAttr::Kind kind);

  const OnnxModel& model_;
  OnnxNode& node_;
  int index_;
  std::vector<OnnxNode>& before_;
  Diags& diags_;
};

OnnxAttr& OldNode::fresh(const char* name, OnnxAttr::Kind kind) {
  remove(name);
  OnnxAttr& attr = node_.attrs.emplace_back();
  attr.name = name;
  attr.kind = kind;
  return attr;
}

void OldNode::set(const char* name, int64_t value) { fresh(name, OnnxAttr::Kind::Int).integer = value; }
void OldNode::set(const char* name, double value) { fresh(name, OnnxAttr::Kind::Real).real = value; }
void OldNode::set(const char* name, std::vector<double> values) {
  fresh(name, OnnxAttr::Kind::Reals).reals = std::move(values);
}

void OldNode::align(std::optional<int64_t> axis, int64_t broadcast) {
  OnnxNode aligned;
  aligned.op_type = "AlignedOperand";
  aligned.domain = "weft";
  aligned.opset = 1;
  aligned.inputs = node_.inputs;
  aligned.outputs = {shown_name(node_) + "/aligned_operand"};
  aligned.line = node_.line;
  aligned.column = node_.column;
  OldNode attrs(model_, aligned, index_, before_, diags_);
  if (axis) attrs.set("axis", *axis);
  attrs.set("broadcast", broadcast);
  node_.inputs[1] = aligned.outputs[0];
  before_.push_back(std::move(aligned));
}

using Rule = bool (*)(OldNode& old);

bool same(OldNode&) { return true; }

/// Operands of one shape, or `broadcast` with an optional `axis` at which operand 1 begins.
bool broadcasting(OldNode& old) {
  if (old.node().inputs.size() != 2) return true;  // the importer reports it
  const OnnxAttr* axis = old.find("axis");
  old.align(axis ? std::optional(axis->integer) : std::nullopt, old.integer("broadcast", 0));
  old.remove("axis");
  old.remove("broadcast");
  return true;
}

/// The slope has an element for each channel, or one for all.
bool prelu(OldNode& old) {
  if (old.node().inputs.size() == 2) old.align(1, 1);
  return true;
}

/// C is broadcast if the flag is set, else it has the result's shape: opset 7 reads both in the same way.
bool gemm(OldNode& old) {
  old.remove("broadcast");
  return true;
}

/// With is_test, as in inference, statistics are the operands. A training has been converted to the new form before.
bool batch_normalization(OldNode& old) {
  if (old.find("training_mode")) return true;
  const bool trains = old.find("is_test") ? !old.integer("is_test", 0) : old.node().outputs.size() > 1;
  if (trains)
    return old.fail("batch-normalization-mode-unsupported", "is_test is 0, which updates statistics: not supported");
  old.remove("is_test");
  return true;
}

/// Without is_test, elements are dropped.
bool dropout(OldNode& old) {
  if (!old.integer("is_test", 0)) old.set("training_mode", int64_t{1});
  old.remove("is_test");
  return true;
}

/// Up to opset 5 `to` is the name of a type.
bool cast(OldNode& old) {
  const OnnxAttr* to = old.find("to");
  if (!to || to->kind != OnnxAttr::Kind::Text) return true;
  std::string name = to->text;
  for (char& c : name) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  const int number = element_type_of_name(name);
  if (!number) return old.fail("attribute-value", "'to' is '" + printable(to->text) + "', which is no element type");
  old.set("to", int64_t{number});
  return true;
}

/// Up to opset 3 the axis may be omitted; it is 1 then.
bool concat(OldNode& old) {
  if (!old.find("axis")) old.set("axis", int64_t{1});
  return true;
}

/// Pad of opset 1.
bool pad(OldNode& old) {
  old.rename("paddings", "pads");
  return true;
}

/// The constants of opset 1 have fewer digits.
bool selu(OldNode& old) {
  if (old.opset() >= 6) return true;
  if (!old.find("alpha")) old.set("alpha", 1.6732);
  if (!old.find("gamma")) old.set("gamma", 1.0507);
  return true;
}

/// Upsample of opset 1: factors of height and width.
bool upsample(OldNode& old) {
  const OnnxAttr *height = old.find("height_scale"), *width = old.find("width_scale");
  if (!height || !width) return old.fail("attribute-missing", "height_scale and width_scale are needed");
  const double h = height->real, w = width->real;
  old.set("scales", std::vector<double>{1, 1, h, w});
  old.remove("height_scale");
  old.remove("width_scale");
  return true;
}

/// An operator in opsets 1 to 6: the first opset whose form the rule reads, and the rule.
struct OldForm {
  int first = 1;
  Rule rule = same;
};
/// Operators with the same form; their names are separated by spaces.
struct OldForms {
  const char* names;
  OldForm form;
};
constexpr OldForms kOldForms[] = {
    {"Abs ArgMax ArgMin AveragePool Ceil Clip Constant Conv ConvTranspose DepthToSpace Elu Exp Flatten "
     "Floor Gather GlobalAveragePool GlobalMaxPool HardSigmoid Hardmax Identity If InstanceNormalization "
     "LRN LeakyRelu Log LogSoftmax Loop LpNormalization MatMul Max MaxPool MaxRoiPool Mean Min Neg Not "
     "RandomUniform Reciprocal ReduceL1 ReduceL2 ReduceLogSum ReduceLogSumExp ReduceMax ReduceMean "
     "ReduceMin ReduceProd ReduceSum ReduceSumSquare Relu Reshape Shape Sigmoid Size Slice Softmax "
     "Softplus Softsign SpaceToDepth Sqrt Squeeze Sum Tanh Transpose Unsqueeze",
     {1, same}},
    {"Add And Div Equal Greater Less Mul Or Pow Sub Xor", {1, broadcasting}},
    // In opset 1, these have another meaning with the same attributes: floating exponents, parts and repeats as
    // operands.
    {"GlobalLpPool LpPool Split", {2, same}},
    {"Tile", {6, same}},
    {"BatchNormalization", {1, batch_normalization}},
    {"Cast", {1, cast}},
    {"Concat", {1, concat}},
    {"Dropout", {1, dropout}},
    {"Gemm", {1, gemm}},
    {"PRelu", {1, prelu}},
    {"Pad", {1, pad}},
    {"Selu", {1, selu}},
    {"Upsample", {1, upsample}},
};

const std::map<std::string, OldForm>& old_forms() {
  static const std::map<std::string, OldForm> forms = [] {
    std::map<std::string, OldForm> all;
    for (const OldForms& row : kOldForms) {
      std::istringstream names(row.names);
      for (std::string name; names >> name;) all[name] = row.form;
    }
    return all;
  }();
  return forms;
}

bool modernise(const OnnxModel& model, std::vector<OnnxNode>& nodes, int& index, Diags& diags) {
  bool ok = true;
  std::vector<OnnxNode> result;
  for (OnnxNode& node : nodes) {
    const int at = index++;
    for (OnnxAttr& attr : node.attrs)
      for (OnnxGraph& graph : attr.graphs) ok &= modernise(model, graph.nodes, index, diags);
    if (node.domain.empty() && node.opset < kOldestForm && node.opset >= first_old_form(node.op_type)) {
      OldNode old(model, node, at, result, diags);
      if (node.opset < 6) old.remove("consumed_inputs");  // lets an operand be overwritten; results are the same
      ok &= old_forms().at(node.op_type).rule(old);
      node.opset = kOldestForm;
    }
    result.push_back(std::move(node));
  }
  nodes = std::move(result);
  return ok;
}

}  // namespace

int first_old_form(const std::string& op_type) {
  const auto form = old_forms().find(op_type);
  return form == old_forms().end() ? kOldestForm : form->second.first;
}

bool modernise_nodes(OnnxModel& model, Diags& diags) {
  int index = 0;
  return modernise(model, model.graph.nodes, index, diags);
}

}  // namespace weftc
