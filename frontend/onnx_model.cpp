// Names of ONNX's element types and attribute kinds, for the readers and for messages.
#include "frontend/onnx_model.h"

namespace weftc {

namespace {
struct ElementType {
  int number;
  const char* name;
  std::optional<DType> dtype;
};
const ElementType kElementTypes[] = {
    {1, "float", DType::F32},
    {2, "uint8", DType::U8},
    {3, "int8", DType::I8},
    {4, "uint16", DType::U16},
    {5, "int16", DType::I16},
    {6, "int32", DType::I32},
    {7, "int64", DType::I64},
    {8, "string", DType::String},
    {9, "bool", DType::Bool},
    {10, "float16", DType::F16},
    {11, "double", DType::F64},
    {12, "uint32", DType::U32},
    {13, "uint64", DType::U64},
    {14, "complex64", {}},
    {15, "complex128", {}},
    {16, "bfloat16", DType::BF16},
    {17, "float8e4m3fn", DType::F8E4M3FN},
    {18, "float8e4m3fnuz", DType::F8E4M3FNUZ},
    {19, "float8e5m2", DType::F8E5M2},
    {20, "float8e5m2fnuz", DType::F8E5M2FNUZ},
    {21, "uint4", DType::U4},
    {22, "int4", DType::I4},
    {23, "float4e2m1", DType::F4E2M1},
    {24, "float8e8m0", DType::F8E8M0},
    {25, "uint2", DType::U2},
    {26, "int2", DType::I2},
    {27, "float6e2m3", DType::F6E2M3},
    {28, "float6e3m2", DType::F6E3M2},
};

const ElementType* find_element_type(int number) {
  for (const ElementType& type : kElementTypes)
    if (type.number == number) return &type;
  return nullptr;
}
}  // namespace

std::string element_type_name(int element_type) {
  const ElementType* type = find_element_type(element_type);
  return type ? type->name : "type " + std::to_string(element_type);
}

std::optional<DType> dtype_of_element_type(int element_type) {
  const ElementType* type = find_element_type(element_type);
  return type ? type->dtype : std::nullopt;
}

int element_type_of_name(std::string_view name) {
  for (const ElementType& type : kElementTypes)
    if (type.name == name) return type.number;
  return 0;
}

const char* attr_kind_name(OnnxAttr::Kind kind) {
  static constexpr const char* kNames[] = {"an int",           "a float",           "a string",
                                           "a tensor",         "a graph",           "a list of ints",
                                           "a list of floats", "a list of strings", "a list of tensors",
                                           "a list of graphs", "a sparse tensor",   "a type"};
  return kNames[static_cast<int>(kind)];
}

const OnnxAttr* OnnxNode::find(std::string_view attr) const {
  for (const OnnxAttr& a : attrs)
    if (a.name == attr) return &a;
  return nullptr;
}

std::span<const std::byte> OnnxModel::keep(std::vector<std::byte> bytes) {
  auto owned = std::make_unique<std::vector<std::byte>>(std::move(bytes));
  const std::span<const std::byte> span = *owned;
  memory.emplace_back(owned.release(), [](void* p) { delete static_cast<std::vector<std::byte>*>(p); });
  return span;
}

static std::string tensor_text(const OnnxValue& value) {
  std::string text = element_type_name(value.element_type);
  if (!value.dims) return text + "[...]";
  std::vector<std::string> dims;
  for (const OnnxDim& dim : *value.dims)
    dims.push_back(dim.kind == OnnxDim::Kind::Fixed   ? std::to_string(dim.extent)
                   : dim.kind == OnnxDim::Kind::Named ? dim.name
                                                      : "?");
  return dims.empty() ? text : text + "[" + join(dims, ", ") + "]";
}

std::string type_text(const OnnxValue& value) {
  std::string text = value.other_type.empty() ? tensor_text(value) : value.other_type;
  if (value.form.is_sequence) text = "sequence(" + text + ")";
  return value.form.is_optional ? "optional(" + text + ")" : text;
}

std::string shown_name(const OnnxNode& node) {
  if (!node.name.empty()) return node.name;
  for (const std::string& output : node.outputs)
    if (!output.empty()) return output;
  return "";
}

Loc OnnxModel::loc(const OnnxNode& node, int index) const {
  Loc loc = Loc::in_node(file, shown_name(node), node.op_type, index);
  const bool is_called = node.call_site >= 0;
  if (!is_called && (node.line == 0 || node.line > static_cast<int>(lines.size()))) return loc;
  Loc written = is_called ? call_sites[static_cast<size_t>(node.call_site)]
                          : Loc::text(file, node.line, node.column, lines[static_cast<size_t>(node.line - 1)]);
  written.node = std::move(loc.node), written.op_type = std::move(loc.op_type);
  return written;
}

}  // namespace weftc
