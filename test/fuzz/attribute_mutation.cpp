// Changing the attributes of a node: those it has, and those that the record of its operator knows.
#include "ir/op_def.h"
#include "test/fuzz/mutation.h"

namespace weftc::fuzz {

namespace {

void change_ints(onnx::AttributeProto& attribute, Dice& dice) {
  const int count = attribute.ints_size();
  if (count == 0 || dice.chance(15))
    attribute.add_ints(dice.number());
  else if (dice.chance(15))
    attribute.mutable_ints()->RemoveLast();
  else
    attribute.set_ints(dice.roll(count), dice.number());
}

void change_text(onnx::AttributeProto& attribute, Dice& dice) {
  static const std::vector<std::string> kWords = {
      "",           "constant", "reflect", "edge",          "wrap",      "linear", "nearest", "cubic",
      "floor",      "forward",  "reverse", "bidirectional", "Relu",      "Tanh",   "sum",     "mean",
      "SAME_UPPER", "VALID",    "max",     "none",          "ij,jk->ik", "ii->i",  "DCR",     "CRD"};
  attribute.set_s(dice.pick(kWords));
}

void change(onnx::AttributeProto& attribute, Dice& dice) {
  static const std::vector<float> kReals = {0.0f, 1.0f, -1.0f, 0.5f, 1e30f, -1e30f, 1e-30f};
  switch (attribute.type()) {
    case onnx::AttributeProto::INT:
      return attribute.set_i(dice.number());
    case onnx::AttributeProto::FLOAT:
      return attribute.set_f(dice.pick(kReals));
    case onnx::AttributeProto::STRING:
      return change_text(attribute, dice);
    case onnx::AttributeProto::INTS:
      return change_ints(attribute, dice);
    case onnx::AttributeProto::FLOATS:
      return attribute.add_floats(dice.pick(kReals));
    default:
      return;
  }
}

onnx::AttributeProto::AttributeType type_of(AttrType type) {
  switch (type) {
    case AttrType::Int:
      return onnx::AttributeProto::INT;
    case AttrType::Real:
      return onnx::AttributeProto::FLOAT;
    case AttrType::Text:
      return onnx::AttributeProto::STRING;
    case AttrType::Ints:
      return onnx::AttributeProto::INTS;
    case AttrType::Reals:
      return onnx::AttributeProto::FLOATS;
    case AttrType::Texts:
      return onnx::AttributeProto::STRINGS;
    case AttrType::Tensor:
      return onnx::AttributeProto::TENSOR;
    case AttrType::Type:
      return onnx::AttributeProto::TYPE_PROTO;
  }
  return onnx::AttributeProto::INT;
}

/// Leaves an attribute that is there as it is.
void add(onnx::NodeProto& node, const AttrSpec& spec, Dice& dice) {
  for (const onnx::AttributeProto& attribute : node.attribute())
    if (attribute.name() == spec.name) return;
  onnx::AttributeProto* attribute = node.add_attribute();
  attribute->set_name(spec.name);
  attribute->set_type(type_of(spec.type));
  change(*attribute, dice);
}

/// An attribute that the operator has and the node does not.
void add_known(onnx::NodeProto& node, Dice& dice) {
  const OpDef* def = find_onnx_op(node.domain(), node.op_type());
  if (def && !def->attrs.empty()) add(node, dice.pick(def->attrs), dice);
}

/// Sets the operands with respect to which a Gradient differentiates: all of them.
void name_gradient(onnx::NodeProto& node, const std::vector<std::string>& names, Dice& dice) {
  node.clear_attribute();
  onnx::AttributeProto* by = node.add_attribute();
  by->set_name("xs");
  by->set_type(onnx::AttributeProto::STRINGS);
  for (const std::string& name : node.input()) by->add_strings(name);
  onnx::AttributeProto* of = node.add_attribute();
  of->set_name("y");
  of->set_type(onnx::AttributeProto::STRING);
  of->set_s(names.empty() ? "y" : dice.pick(names));
}

}  // namespace

void add_required_attributes(onnx::NodeProto& node, const std::vector<std::string>& names, Dice& dice) {
  const OpDef* def = find_onnx_op(node.domain(), node.op_type());
  if (!def) return;
  if (def->kind == OpKind::Gradient) return name_gradient(node, names, dice);
  for (const AttrSpec& spec : def->attrs)
    if (spec.required) add(node, spec, dice);
}

void change_attribute(onnx::NodeProto& node, Dice& dice) {
  const int count = node.attribute_size();
  if (count == 0 || dice.chance(25)) return add_known(node, dice);
  if (dice.chance(10)) return node.mutable_attribute()->DeleteSubrange(dice.roll(count), 1);
  change(*node.mutable_attribute(dice.roll(count)), dice);
}

}  // namespace weftc::fuzz
