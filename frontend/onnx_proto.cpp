// The only file that includes protobuf's headers. It copies a ModelProto into the plain structs of onnx_model.h. Raw
// tensor bytes are not copied but stay in the parsed message, which the model keeps.
#include "frontend/onnx_proto.h"

#include <google/protobuf/io/coded_stream.h>

#include <cstring>
#include <exception>

#include "frontend/graph_depth.h"
#include "frontend/mapped_file.h"
#include "frontend/module_paths.h"
#include "frontend/parameter_marks.h"
#include "frontend/tensor_bytes.h"
#include "ir/base/output_file.h"
#include "ir/string_table.h"
#include "onnx.pb.h"
#include "onnx_data.pb.h"

namespace weftc {

namespace {

/// Turns protobuf messages into the plain structs. Raw tensor bytes stay in the parsed message.
class Converter {
 public:
  explicit Converter(OnnxModel& model) : model_(model) {}

  OnnxTensor tensor(const onnx::TensorProto& from);
  OnnxAttr attr(const onnx::AttributeProto& from);
  OnnxNode node(const onnx::NodeProto& from);
  OnnxValue value(const onnx::ValueInfoProto& from);
  OnnxGraph graph(const onnx::GraphProto& from);
  OnnxFunction function(const onnx::FunctionProto& from);

 private:
  template <class Element, class Field>
  std::span<const std::byte> pack(const Field& field);
  std::span<const std::byte> typed_bytes(const onnx::TensorProto& from, std::string& problem);
  std::span<const std::byte> int32_bytes(const onnx::TensorProto& from);
  std::span<const std::byte> string_bytes(const onnx::TensorProto& from, std::string& problem);

  OnnxModel& model_;
};

template <class Element, class Field>
std::span<const std::byte> Converter::pack(const Field& field) {
  std::vector<std::byte> bytes(static_cast<size_t>(field.size()) * sizeof(Element));
  for (int i = 0; i < field.size(); ++i) {
    const Element element = static_cast<Element>(field.Get(i));
    std::memcpy(bytes.data() + static_cast<size_t>(i) * sizeof(Element), &element, sizeof element);
  }
  return model_.keep(std::move(bytes));
}

/// int32_data holds all narrow types; 16-bit floats are bit patterns. Types of 2 and 4 bits are packed; each element of
/// 6 bits has an entry of its own.
std::span<const std::byte> Converter::int32_bytes(const onnx::TensorProto& from) {
  const std::optional<DType> dtype = dtype_of_element_type(from.data_type());
  if (dtype && onnx_bits(*dtype) == 6) {
    std::vector<std::byte> codes;
    for (const int32_t code : from.int32_data()) codes.push_back(static_cast<std::byte>(code));
    return model_.keep(packed_as_in_files(*dtype, std::move(codes)));
  }
  switch (dtype ? dtype_bytes(*dtype) : 4) {
    case 1:
      return pack<uint8_t>(from.int32_data());
    case 2:
      return pack<uint16_t>(from.int32_data());
    default:
      return pack<int32_t>(from.int32_data());
  }
}

/// Strings as elements in memory.
std::span<const std::byte> Converter::string_bytes(const onnx::TensorProto& from, std::string& problem) {
  const auto width = static_cast<size_t>(dtype_bytes(DType::String));
  std::vector<std::byte> bytes(static_cast<size_t>(from.string_data_size()) * width);
  for (int i = 0; i < from.string_data_size(); ++i) {
    if (const std::string why = why_no_element(from.string_data(i)); !why.empty()) {
      problem = "has a string, number " + std::to_string(i) + ", that " + why;
      return {};
    }
    put_in_memory(from.string_data(i), bytes.data() + static_cast<size_t>(i) * width);
  }
  return model_.keep(std::move(bytes));
}

/// Elements from the typed field that ONNX prescribes for the element type (TensorProto), as little-endian
/// bytes.
std::span<const std::byte> Converter::typed_bytes(const onnx::TensorProto& from, std::string& problem) {
  const std::optional<DType> dtype = dtype_of_element_type(from.data_type());
  if (!dtype) return {};  // refused by name at its use
  const int fields = !from.float_data().empty() + !from.int32_data().empty() + !from.int64_data().empty() +
                     !from.double_data().empty() + !from.uint64_data().empty() + !from.string_data().empty();
  if (fields > 1) problem = "has its data in several fields";
  if (fields != 1) return {};
  switch (*dtype) {
    case DType::F32:
      if (!from.float_data().empty()) return pack<float>(from.float_data());
      break;
    case DType::F64:
      if (!from.double_data().empty()) return pack<double>(from.double_data());
      break;
    case DType::I64:
      if (!from.int64_data().empty()) return pack<int64_t>(from.int64_data());
      break;
    case DType::U64:
      if (!from.uint64_data().empty()) return pack<uint64_t>(from.uint64_data());
      break;
    case DType::U32:
      if (!from.uint64_data().empty()) return pack<uint32_t>(from.uint64_data());
      break;
    case DType::F16:
    case DType::BF16:
    case DType::I8:
    case DType::I16:
    case DType::I32:
    case DType::U8:
    case DType::U16:
    case DType::Bool:
    case DType::F8E4M3FN:
    case DType::F8E4M3FNUZ:
    case DType::F8E5M2:
    case DType::F8E5M2FNUZ:
    case DType::F8E8M0:
    case DType::F4E2M1:
    case DType::F6E2M3:
    case DType::F6E3M2:
    case DType::I4:
    case DType::U4:
    case DType::I2:
    case DType::U2:
      if (!from.int32_data().empty()) return int32_bytes(from);
      break;
    case DType::String:
      if (!from.string_data().empty()) return string_bytes(from, problem);
      break;
  }
  problem = "has its data in a field of another element type";
  return {};
}

/// External data is only recorded: it is read only if the tensor is used.
OnnxTensor Converter::tensor(const onnx::TensorProto& from) {
  OnnxTensor to;
  to.name = from.name();
  to.element_type = from.data_type();
  to.dims.assign(from.dims().begin(), from.dims().end());
  to.loc = Loc::in_file(model_.file);
  const bool is_raw = from.data_location() == onnx::TensorProto::EXTERNAL || from.has_raw_data();
  if (is_raw && from.data_type() == onnx::TensorProto::STRING) {
    to.problem = "is of strings, which have no raw data";
  } else if (from.data_location() == onnx::TensorProto::EXTERNAL) {
    ExternalBytes external;
    for (const auto& entry : from.external_data()) {
      if (entry.key() == "location")
        external.location = entry.value();
      else if (entry.key() == "offset")
        external.offset = entry.value();
      else if (entry.key() == "length")
        external.length = entry.value();
    }
    to.external = std::move(external);
  } else if (from.has_segment()) {
    to.problem = "is a segment of a larger tensor";
  } else if (from.has_raw_data()) {
    to.bytes = std::as_bytes(std::span(from.raw_data()));
  } else {
    to.bytes = typed_bytes(from, to.problem);
  }
  return to;
}

/// Files older than IR 2 have no type: the field that is present determines it.
onnx::AttributeProto::AttributeType type_of(const onnx::AttributeProto& from) {
  if (from.has_type() && from.type() != onnx::AttributeProto::UNDEFINED) return from.type();
  if (from.has_f()) return onnx::AttributeProto::FLOAT;
  if (from.has_s()) return onnx::AttributeProto::STRING;
  if (from.has_t()) return onnx::AttributeProto::TENSOR;
  if (from.has_g()) return onnx::AttributeProto::GRAPH;
  if (from.floats_size()) return onnx::AttributeProto::FLOATS;
  if (from.ints_size()) return onnx::AttributeProto::INTS;
  if (from.strings_size()) return onnx::AttributeProto::STRINGS;
  return onnx::AttributeProto::INT;
}

OnnxAttr Converter::attr(const onnx::AttributeProto& from) {
  using Proto = onnx::AttributeProto;
  OnnxAttr to;
  to.name = from.name();
  to.reference = from.ref_attr_name();
  switch (type_of(from)) {
    case Proto::FLOAT:
      to.kind = OnnxAttr::Kind::Real;
      to.real = static_cast<double>(from.f());
      break;
    case Proto::INT:
    case Proto::UNDEFINED:
      to.kind = OnnxAttr::Kind::Int;
      to.integer = from.i();
      break;
    case Proto::STRING:
      to.kind = OnnxAttr::Kind::Text;
      to.text = from.s();
      break;
    case Proto::TENSOR:
      to.kind = OnnxAttr::Kind::Tensor;
      to.tensors.push_back(tensor(from.t()));
      break;
    case Proto::GRAPH:
      to.kind = OnnxAttr::Kind::Graph;
      to.graphs.push_back(graph(from.g()));
      break;
    case Proto::FLOATS:
      to.kind = OnnxAttr::Kind::Reals;
      to.reals.assign(from.floats().begin(), from.floats().end());
      break;
    case Proto::INTS:
      to.kind = OnnxAttr::Kind::Ints;
      to.ints.assign(from.ints().begin(), from.ints().end());
      break;
    case Proto::STRINGS:
      to.kind = OnnxAttr::Kind::Texts;
      to.texts.assign(from.strings().begin(), from.strings().end());
      break;
    case Proto::TENSORS:
      to.kind = OnnxAttr::Kind::Tensors;
      for (const auto& t : from.tensors()) to.tensors.push_back(tensor(t));
      break;
    case Proto::GRAPHS:
      to.kind = OnnxAttr::Kind::Graphs;
      for (const auto& g : from.graphs()) to.graphs.push_back(graph(g));
      break;
    case Proto::SPARSE_TENSOR:
    case Proto::SPARSE_TENSORS:
      to.kind = OnnxAttr::Kind::Sparse;
      break;
    case Proto::TYPE_PROTO:
    case Proto::TYPE_PROTOS:
      to.kind = OnnxAttr::Kind::Type;
      break;
  }
  return to;
}

OnnxSharding sharding_of(const onnx::ShardingSpecProto& from) {
  OnnxSharding to;
  to.tensor = from.tensor_name();
  to.devices.assign(from.device().begin(), from.device().end());
  for (const auto& group : from.index_to_device_group_map())
    to.groups[group.key()].assign(group.value().begin(), group.value().end());
  for (const auto& dim : from.sharded_dim()) {
    OnnxShardedAxis axis{dim.axis(), {}};
    for (const auto& part : dim.simple_sharding())
      axis.parts.push_back({part.has_dim_value() ? part.dim_value() : 0, part.num_shards()});
    to.axes.push_back(std::move(axis));
  }
  return to;
}

OnnxNodeDevices devices_of(const onnx::NodeDeviceConfigurationProto& from) {
  OnnxNodeDevices to;
  to.configuration = from.configuration_id();
  for (const auto& spec : from.sharding_spec()) to.shardings.push_back(sharding_of(spec));
  if (from.has_pipeline_stage()) to.stage = from.pipeline_stage();
  return to;
}

OnnxNode Converter::node(const onnx::NodeProto& from) {
  OnnxNode to;
  to.name = from.name();
  to.op_type = from.op_type();
  to.domain = from.domain() == "ai.onnx" ? "" : from.domain();
  to.overload = from.overload();
  to.inputs.assign(from.input().begin(), from.input().end());
  to.outputs.assign(from.output().begin(), from.output().end());
  for (const auto& a : from.attribute()) to.attrs.push_back(attr(a));
  for (const auto& d : from.device_configurations()) to.devices.push_back(devices_of(d));
  for (const auto& entry : from.metadata_props())
    if (entry.key() == kNameScopes) to.modules = module_paths(entry.value());
  return to;
}

/// A number, a symbol, or open.
OnnxDim dim_of(const onnx::TensorShapeProto::Dimension& from) {
  // Exporters write -1 for unknown lengths.
  if (from.has_dim_value() && from.dim_value() < 0) return {};
  if (from.has_dim_value()) return {OnnxDim::Kind::Fixed, from.dim_value(), ""};
  if (from.has_dim_param() && !from.dim_param().empty()) return {OnnxDim::Kind::Named, 0, from.dim_param()};
  return {};
}

/// A word for types that are not read, for messages.
const char* other_type_of(const onnx::TypeProto& type) {
  switch (type.value_case()) {
    case onnx::TypeProto::kTensorType:
    case onnx::TypeProto::VALUE_NOT_SET:
      return "";
    case onnx::TypeProto::kSequenceType:
      return "sequence";
    case onnx::TypeProto::kMapType:
      return "map";
    case onnx::TypeProto::kOptionalType:
      return "optional";
    case onnx::TypeProto::kSparseTensorType:
      return "sparse tensor";
    case onnx::TypeProto::kOpaqueType:
      return "opaque";
  }
  return "unknown";
}

/// A graph input or output, with the type that the model gives.
OnnxValue Converter::value(const onnx::ValueInfoProto& from) {
  OnnxValue to;
  to.name = from.name();
  const onnx::TypeProto* type = &from.type();
  to.form.is_optional = type->has_optional_type();
  if (to.form.is_optional) type = &type->optional_type().elem_type();
  to.form.is_sequence = type->has_sequence_type();
  if (to.form.is_sequence) type = &type->sequence_type().elem_type();
  to.other_type = other_type_of(*type);
  if (!type->has_tensor_type()) return to;
  to.element_type = type->tensor_type().elem_type();
  if (!type->tensor_type().has_shape()) return to;
  to.dims.emplace();
  for (const auto& dim : type->tensor_type().shape().dim()) to.dims->push_back(dim_of(dim));
  return to;
}

OnnxGraph Converter::graph(const onnx::GraphProto& from) {
  OnnxGraph to;
  to.name = from.name();
  for (const auto& v : from.input()) to.inputs.push_back(value(v));
  for (const auto& v : from.output()) to.outputs.push_back(value(v));
  for (const auto& t : from.initializer()) to.initialisers.push_back(tensor(t));
  for (const auto& t : from.sparse_initializer()) to.sparse_initialisers.push_back(t.values().name());
  for (const auto& n : from.node()) to.nodes.push_back(node(n));
  for (const auto& v : from.value_info())
    for (const auto& entry : v.metadata_props()) mark_value(model_, v.name(), entry.key(), entry.value());
  for (const auto& t : from.initializer())
    for (const auto& entry : t.metadata_props()) mark_value(model_, t.name(), entry.key(), entry.value());
  for (const auto& entry : from.metadata_props()) mark_by_signature(model_, entry.key(), entry.value());
  return to;
}

template <class Imports>
std::map<std::string, int64_t> opsets_of(const Imports& imports) {
  std::map<std::string, int64_t> opsets;
  for (const auto& import : imports) {
    const std::string domain = import.domain() == "ai.onnx" ? "" : import.domain();
    const auto [at, is_new] = opsets.emplace(domain, import.version());
    if (!is_new) at->second = std::max<int64_t>(at->second, import.version());
  }
  return opsets;
}

OnnxFunction Converter::function(const onnx::FunctionProto& from) {
  OnnxFunction to;
  to.name = from.name();
  to.domain = from.domain() == "ai.onnx" ? "" : from.domain();
  to.overload = from.overload();
  to.inputs.assign(from.input().begin(), from.input().end());
  to.outputs.assign(from.output().begin(), from.output().end());
  to.attrs.assign(from.attribute().begin(), from.attribute().end());
  for (const auto& a : from.attribute_proto()) to.defaults.push_back(attr(a));
  for (const auto& n : from.node()) to.nodes.push_back(node(n));
  to.opsets = opsets_of(from.opset_import());
  return to;
}

// A graph, its node and the node's attribute are three messages; types may nest in addition.
constexpr int kDeepestMessage = 3 * kDeepestGraph + 64;

/// Parses `bytes`; false if they are not such a message. Broken wire data makes protobuf return false, never throw, but
/// a huge declared size may exhaust memory.
template <class Message>
bool parse(Message& message, std::span<const std::byte> bytes) {
  try {
    google::protobuf::io::CodedInputStream in(reinterpret_cast<const uint8_t*>(bytes.data()),
                                              static_cast<int>(bytes.size()));
    in.SetRecursionLimit(kDeepestMessage);
    return message.ParseFromCodedStream(&in) && in.ConsumedEntireMessage();
  } catch (const std::exception&) {
    return false;
  }
}

/// Transfers a parsed message to the model, whose tensors point into it.
template <class Message>
const Message& keep(OnnxModel& model, std::unique_ptr<Message> message) {
  const Message& kept = *message;
  model.memory.emplace_back(message.release(), [](void* p) { delete static_cast<Message*>(p); });
  return kept;
}

/// Protobuf counts bytes in an int.
constexpr size_t kProtobufLimit = (size_t{1} << 31) - 1;

}  // namespace

/// The message in a model's file; null after reporting.
static std::unique_ptr<onnx::ModelProto> read_model(const std::string& path, Diags& diags) {
  const MappedFile file = map_file(path);
  const Loc loc = Loc::in_file(path);
  if (!file.error.empty()) {
    diags.error("model-file", loc, "the model cannot be read: {}", file.error);
    return nullptr;
  }
  if (file.bytes.size() > kProtobufLimit) {
    diags.error("model-too-large", loc,
                "the file has {} bytes, and a protobuf file holds less than 2 GiB: export the model with external data",
                file.bytes.size());
    return nullptr;
  }
  if (!check_graph_depth(file.bytes, path, diags)) return nullptr;
  auto parsed = std::make_unique<onnx::ModelProto>();
  if (!parse(*parsed, file.bytes)) {
    diags.error("model-damaged", loc, "this is no ONNX model, or it is cut off or damaged ({} bytes)",
                file.bytes.size());
    return nullptr;
  }
  if (parsed->has_graph()) return parsed;
  diags.error("model-without-graph", loc, "the file holds no graph: it is empty or no ONNX model");
  return nullptr;
}

std::optional<OnnxModel> read_onnx_binary(const std::string& path, Diags& diags) {
  std::unique_ptr<onnx::ModelProto> parsed = read_model(path, diags);
  if (!parsed) return {};
  OnnxModel model;
  model.file = path;
  const onnx::ModelProto& from = keep(model, std::move(parsed));
  Converter convert(model);
  model.ir_version = from.ir_version();
  model.producer = from.producer_name();
  model.opsets = opsets_of(from.opset_import());
  for (const auto& entry : from.metadata_props()) mark_by_signature(model, entry.key(), entry.value());
  for (const auto& c : from.configuration()) model.configurations.push_back({c.name(), c.num_devices()});
  model.graph = convert.graph(from.graph());
  for (const auto& f : from.functions()) model.functions.push_back(convert.function(f));
  return model;
}

/// Replaces an initialiser's bytes, in the model or at the end of the file of external data.
static void store_bytes(onnx::TensorProto& to, const std::vector<std::byte>& bytes, OutputFile* beside,
                        const std::string& location, size_t& offset) {
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  to.clear_float_data(), to.clear_int32_data(), to.clear_int64_data(), to.clear_double_data(), to.clear_uint64_data(),
      to.clear_raw_data();
  to.clear_external_data(), to.clear_data_location();
  if (!beside) return to.set_raw_data(bytes.data(), bytes.size());
  to.set_data_location(onnx::TensorProto::EXTERNAL);
  const std::pair<const char*, std::string> entries[] = {
      {"location", location}, {"offset", std::to_string(offset)}, {"length", std::to_string(bytes.size())}};
  for (const auto& [key, value] : entries) {
    auto* entry = to.add_external_data();
    entry->set_key(key), entry->set_value(value);
  }
  beside->write(text);
  offset += bytes.size();
  // Programs map such files, so tensors begin at page boundaries.
  static constexpr size_t kPage = 4096;
  const std::string fill((kPage - offset % kPage) % kPage, '\0');
  beside->write(fill);
  offset += fill.size();
}

bool write_onnx_with(const std::string& path, const NewBytes& new_bytes, const std::string& to, Diags& diags) {
  const std::unique_ptr<onnx::ModelProto> model = read_model(path, diags);
  if (!model) return false;
  OnnxModel memory;
  memory.file = path;
  Converter convert(memory);
  TensorBytes stored(memory, diags);
  std::optional<OutputFile> beside;
  const std::string location = to.substr(to.rfind('/') + 1) + ".data";
  size_t offset = 0;
  for (onnx::TensorProto& each : *model->mutable_graph()->mutable_initializer()) {
    const OnnxTensor tensor = convert.tensor(each);
    const bool is_outside = each.data_location() == onnx::TensorProto::EXTERNAL;
    std::optional<std::vector<std::byte>> bytes = new_bytes(tensor);
    if (!bytes && is_outside)
      if (const auto found = stored.find(tensor, "initializer '" + printable(tensor.name) + "'", tensor.loc))
        bytes = packed_as_in_files(*dtype_of_element_type(tensor.element_type), {found->begin(), found->end()});
    if (!diags.ok()) return false;
    if (is_outside && !beside) beside.emplace(to + ".data");
    if (bytes) store_bytes(each, *bytes, is_outside ? &*beside : nullptr, location, offset);
  }
  std::string wrong = beside ? beside->finish() : "";
  if (wrong.empty() && model->ByteSizeLong() > kProtobufLimit) wrong = "a protobuf file holds less than 2 GiB";
  if (wrong.empty()) wrong = write_file(to, model->SerializeAsString());
  if (!wrong.empty()) diags.error("export-unwritable", Loc::in_file(to), "the model cannot be written: {}", wrong);
  return wrong.empty();
}

/// The message in a file of tensors, which `memory` keeps; null after reporting.
template <class Message>
static const Message* read_message(const std::string& path, OnnxModel& memory, Diags& diags) {
  const MappedFile file = map_file(path);
  if (!file.error.empty()) {
    diags.error("tensor-file", Loc::in_file(path), "the tensor cannot be read: {}", file.error);
    return nullptr;
  }
  auto parsed = std::make_unique<Message>();
  if (file.bytes.size() > kProtobufLimit || !parse(*parsed, file.bytes)) {
    diags.error("tensor-damaged", Loc::in_file(path), "this is no ONNX tensor, or it is cut off or damaged ({} bytes)",
                file.bytes.size());
    return nullptr;
  }
  memory.file = path;
  return &keep(memory, std::move(parsed));
}

std::optional<OnnxTensor> read_tensor_proto(const std::string& path, OnnxModel& memory, Diags& diags) {
  const auto* message = read_message<onnx::TensorProto>(path, memory, diags);
  if (!message) return {};
  return Converter(memory).tensor(*message);
}

/// Adds the tensors of a sequence. False for a sequence of anything else.
static bool add_tensors(const onnx::SequenceProto& from, OnnxModel& memory, std::vector<OnnxTensor>& tensors) {
  if (from.elem_type() != onnx::SequenceProto::TENSOR && from.elem_type() != onnx::SequenceProto::UNDEFINED)
    return false;
  for (const auto& tensor : from.tensor_values()) tensors.push_back(Converter(memory).tensor(tensor));
  return true;
}

std::optional<std::vector<OnnxTensor>> read_tensors_proto(const std::string& path, const OnnxForm& form,
                                                          OnnxModel& memory, Diags& diags) {
  std::vector<OnnxTensor> tensors;
  bool read = true;
  if (!form.is_optional) {
    const auto* sequence = read_message<onnx::SequenceProto>(path, memory, diags);
    if (!sequence) return {};
    read = add_tensors(*sequence, memory, tensors);
  } else {
    const auto* optional = read_message<onnx::OptionalProto>(path, memory, diags);
    if (!optional) return {};
    if (optional->elem_type() == onnx::OptionalProto::TENSOR)
      tensors.push_back(Converter(memory).tensor(optional->tensor_value()));
    else if (optional->elem_type() == onnx::OptionalProto::SEQUENCE)
      read = add_tensors(optional->sequence_value(), memory, tensors);
    else
      read = optional->elem_type() == onnx::OptionalProto::UNDEFINED;
  }
  if (read) return tensors;
  diags.error("sequence-elements-unsupported", Loc::in_file(path), "what the file holds are no tensors");
  return {};
}

}  // namespace weftc
