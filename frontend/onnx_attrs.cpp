// Attributes of ONNX nodes, checked against the op's record. Unknown names and wrong types are errors with a
// suggestion, because ignoring a misspelt attribute changes results silently.
#include <algorithm>
#include <cstring>

#include "frontend/onnx_import.h"
#include "ir/base/contains.h"
#include "ir/string_table.h"

namespace weftc {

/// The kind in ONNX files for an attribute type of Weft's records.
static OnnxAttr::Kind kind_of(AttrType type) {
  switch (type) {
    case AttrType::Int:
      return OnnxAttr::Kind::Int;
    case AttrType::Real:
      return OnnxAttr::Kind::Real;
    case AttrType::Text:
      return OnnxAttr::Kind::Text;
    case AttrType::Ints:
      return OnnxAttr::Kind::Ints;
    case AttrType::Reals:
      return OnnxAttr::Kind::Reals;
    case AttrType::Texts:
      return OnnxAttr::Kind::Texts;
    case AttrType::Tensor:
      return OnnxAttr::Kind::Tensor;
    case AttrType::Type:
      return OnnxAttr::Kind::Type;
  }
  return OnnxAttr::Kind::Int;
}

/// True if the attribute as written has the type of the record.
static bool is_of(const OnnxAttr& attr, AttrType type) {
  if (attr.kind == kind_of(type)) return true;
  // The text syntax cannot tell which kind of list an empty one is.
  const bool is_empty = attr.kind == OnnxAttr::Kind::Ints && attr.ints.empty();
  return is_empty && (type == AttrType::Reals || type == AttrType::Texts);
}

/// The value in Weft's form; a tensor becomes a constant of the module. Nothing after reporting.
static std::optional<AttrValue> value_of(ImportState& state, const OnnxAttr& attr, AttrType type, const Loc& loc) {
  switch (type) {
    case AttrType::Int:
      return attr.integer;
    case AttrType::Real:
      return attr.real;
    case AttrType::Text:
      return attr.text;
    case AttrType::Ints:
      return attr.ints;
    case AttrType::Reals:
      return attr.reals;
    case AttrType::Texts:
      return attr.texts;
    case AttrType::Type:
      return std::string();
    case AttrType::Tensor:
      break;
  }
  const std::string what = "attribute '" + printable(attr.name) + "'";
  const std::optional<ConstantId> constant = state.constant(attr.tensors[0], what, loc);
  if (!constant) return {};
  return *constant;
}

static const AttrSpec* find_spec(const OpDef& def, const std::string& name) {
  for (const AttrSpec& spec : def.attrs)
    if (spec.name == name && !spec.is_own) return &spec;
  return nullptr;
}

static std::vector<std::string> spec_names(const OpDef& def) {
  std::vector<std::string> names;
  for (const AttrSpec& spec : def.attrs)
    if (!spec.is_own) names.push_back(spec.name);
  return names;
}

/// Checks one attribute and appends it.
static bool import_attr(ImportState& state, const OnnxNode& node, const OnnxAttr& attr, const OpDef& def,
                        const Loc& loc, Attrs& attrs) {
  const AttrSpec* spec = find_spec(def, attr.name);
  if (!spec) {
    state.diags.error("unknown-attribute", loc, "{} has no attribute '{}'{}", full_op_name(node), printable(attr.name),
                      did_you_mean(attr.name, spec_names(def)));
    return false;
  }
  if (!is_of(attr, spec->type)) {
    state.diags.error("attribute-type", loc, "attribute '{}' is {}, expected {}", attr.name, attr_kind_name(attr.kind),
                      attr_kind_name(kind_of(spec->type)));
    return false;
  }
  const bool repeated = std::any_of(attrs.begin(), attrs.end(), [&](const Attr& a) { return a.name == attr.name; });
  if (repeated) {
    state.diags.error("attribute-repeated", loc, "attribute '{}' is given twice", attr.name);
    return false;
  }
  std::optional<AttrValue> value = value_of(state, attr, spec->type, loc);
  if (value) attrs.push_back({attr.name, std::move(*value)});
  return value.has_value();
}

bool import_attrs(ImportState& state, const OnnxNode& node, const OpDef& def, const Loc& loc, Attrs& attrs) {
  bool ok = true;
  const std::vector<std::string> regions = region_attrs(node);
  for (const OnnxAttr& attr : node.attrs) {
    if (!attr.reference.empty()) {
      state.diags.error("attribute-reference", loc,
                        "attribute '{}' refers to '{}' of a function, but stands in no function", printable(attr.name),
                        printable(attr.reference));
      ok = false;
    } else if (!contains(regions, attr.name)) {
      ok &= import_attr(state, node, attr, def, loc, attrs);
    }
  }
  return ok;
}

/// True if a constant operand will become the attribute, or may (an operand may be optional in ONNX as well).
static bool comes_as_operand(const Op& op, const OpDef& def, const char* attr) {
  for (const ConstantOperand& operand : def.constant_operands)
    if (std::string_view(operand.attr) == attr)
      return operand.input < static_cast<int>(op.inputs.size()) && op.inputs[operand.input];
  return false;
}

bool check_required_attrs(ImportState& state, const OnnxNode& node, const Op& op, const Loc& loc) {
  const OpDef& def = op_def(op);
  bool ok = true;
  for (const AttrSpec& spec : def.attrs) {
    if (!spec.required || spec.otherwise || op.has(spec.name) || comes_as_operand(op, def, spec.name)) continue;
    state.diags.error("attribute-missing", loc, "{} needs '{}'", full_op_name(node), spec.name);
    ok = false;
  }
  return ok;
}

static Tensor strings_tensor(const Dims& dims, const std::vector<std::string>& strings) {
  Tensor tensor(DType::String, dims);
  for (size_t i = 0; i < strings.size(); ++i) tensor.integers[i] = string_id(strings[i]);
  return tensor;
}

/// value_float and the like: the tensor is created here. Floats become elements of type `real`.
static std::optional<Tensor> plain_constant(const OnnxAttr& attr, DType real) {
  const auto count = [](const auto& list) { return static_cast<int64_t>(list.size()); };
  if (attr.name == "value_int" && attr.kind == OnnxAttr::Kind::Int) {
    Tensor tensor(DType::I64, {});
    tensor.integers = {attr.integer};
    return tensor;
  }
  if (attr.name == "value_float" && attr.kind == OnnxAttr::Kind::Real) return Tensor::scalar(real, attr.real);
  if (attr.name == "value_ints" && attr.kind == OnnxAttr::Kind::Ints) return Tensor::ints(attr.ints);
  const bool empty_list = attr.kind == OnnxAttr::Kind::Ints && attr.ints.empty();
  if (attr.name == "value_floats" && (attr.kind == OnnxAttr::Kind::Reals || empty_list)) {
    Tensor tensor(real, {count(attr.reals)});
    tensor.real = attr.reals;
    return tensor;
  }
  if (attr.name == "value_string" && attr.kind == OnnxAttr::Kind::Text) return strings_tensor({}, {attr.text});
  if (attr.name == "value_strings" && (attr.kind == OnnxAttr::Kind::Texts || empty_list))
    return strings_tensor({count(attr.texts)}, attr.texts);
  return {};
}

/// Why an element of a constant cannot hold one of the attribute's strings, or "".
static std::string why_no_strings(const OnnxAttr& attr) {
  std::string why = why_no_element(attr.text);
  for (size_t i = 0; why.empty() && i < attr.texts.size(); ++i) why = why_no_element(attr.texts[i]);
  return why;
}

std::optional<ConstantId> import_constant_node(ImportState& state, const OnnxNode& node, const Loc& loc) {
  if (node.attrs.size() != 1 || !node.attrs[0].reference.empty()) {
    state.diags.error("constant-attributes", loc,
                      "a Constant has exactly one attribute with its value, but this has {}", node.attrs.size());
    return {};
  }
  const OnnxAttr& attr = node.attrs[0];
  if (attr.name == "value" && attr.kind == OnnxAttr::Kind::Tensor)
    return state.constant(attr.tensors[0], "its tensor", loc);
  if (const std::string why = why_no_strings(attr); !why.empty()) {
    state.diags.error("constant-string", loc, "a Constant has a string that {}", why);
    return {};
  }
  if (const std::optional<Tensor> tensor = plain_constant(attr, node.domain.empty() ? DType::F32 : DType::F64))
    return state.module.constants.add(shown_name(node), *tensor);
  state.diags.error("constant-value-unsupported", loc, "a Constant of attribute '{}' ({}) is not supported",
                    printable(attr.name), attr_kind_name(attr.kind));
  return {};
}

}  // namespace weftc
