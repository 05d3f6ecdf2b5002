// An ONNX model as read, before any interpretation. The binary reader and the text reader produce it, and the importer
// reads it. It is plain data, so that protobuf stays inside one file.
#pragma once
#include <cstddef>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "ir/base/diag.h"
#include "ir/type.h"

namespace weftc {

/// Location of a tensor's bytes if they are not in the model: external_data of ONNX.
struct ExternalBytes {
  std::string location;
  std::string offset;  // decimal text, as in the model; empty: 0
  std::string length;  // empty: the length for the shape
};

/// An initialiser, or the tensor of an attribute.
struct OnnxTensor {
  std::string name;
  int element_type = 0;  // the number in ONNX files: 1 is FLOAT
  Dims dims;
  std::span<const std::byte> bytes;  // into OnnxModel::memory; not yet checked against dims
  std::optional<ExternalBytes> external;
  std::string problem;  // why it cannot be read (data in the wrong field), or empty
  Loc loc;
};

struct OnnxGraph;

struct OnnxAttr {
  enum class Kind { Int, Real, Text, Tensor, Graph, Ints, Reals, Texts, Tensors, Graphs, Sparse, Type };
  std::string name;
  Kind kind = Kind::Int;
  std::string reference;  // in a function body: the function's attribute that replaces this one
  int64_t integer = 0;
  double real = 0;
  std::string text;
  std::vector<int64_t> ints;
  std::vector<double> reals;
  std::vector<std::string> texts;
  std::vector<OnnxTensor> tensors;
  std::vector<OnnxGraph> graphs;
};
/// "int", "list of floats": for messages.
const char* attr_kind_name(OnnxAttr::Kind kind);

/// A part of a sharded axis: `extent` elements (0: unknown, or a symbol) in `shards` parts.
struct OnnxAxisShards {
  int64_t extent = 0;
  int64_t shards = 1;
};
/// An axis of a tensor; it is fused of several dims if it has several parts.
struct OnnxShardedAxis {
  int64_t axis = 0;
  std::vector<OnnxAxisShards> parts;
};
/// Location of the shards of an operand or a result of a node: shard k, row-major over the axes, is on devices[k]. An
/// entry of `devices` may stand for a group of devices with a copy each.
struct OnnxSharding {
  std::string tensor;
  std::vector<int64_t> devices;
  std::map<int64_t, std::vector<int64_t>> groups;
  std::vector<OnnxShardedAxis> axes;
};
/// The annotation of a node for one configuration.
struct OnnxNodeDevices {
  std::string configuration;
  std::vector<OnnxSharding> shardings;
  std::optional<int64_t> stage;
};
struct OnnxConfiguration {
  std::string name;
  int64_t devices = 0;
};

/// A node as written. Absent optional operands and results have empty names.
struct OnnxNode {
  std::string name;
  std::string op_type;
  std::string domain;  // "" is ai.onnx
  std::string overload;
  std::vector<std::string> inputs;
  std::vector<std::string> outputs;
  std::vector<OnnxAttr> attrs;
  std::vector<OnnxNodeDevices> devices;
  std::vector<std::string> modules;  // paths of the exporter's modules around the node, outer first
  int opset = 0;                     // of its domain; 0 until the opsets are resolved
  int line = 0;                      // of a text model, else 0
  int column = 0;
  int call_site = -1;  // in OnnxModel::call_sites, for a node that a schedule asks for
  std::string whole;   // for one of several nodes that replace one of the model's: that one's name

  const OnnxAttr* find(std::string_view attr) const;
};

/// A dimension of an input: a number, a symbol, or not given.
struct OnnxDim {
  enum class Kind { Fixed, Named, Open };
  Kind kind = Kind::Open;
  int64_t extent = 0;
  std::string name;
};

/// How an input or output is composed of tensors.
struct OnnxForm {
  bool is_sequence = false;
  bool is_optional = false;  // a tensor or sequence, or nothing

  bool is_tensor() const { return !is_sequence && !is_optional; }
};

/// A graph input or output; type and dims are those of each tensor.
struct OnnxValue {
  std::string name;
  OnnxForm form;
  std::string other_type;  // "map", ...: a type that is not read; empty for tensors
  int element_type = 0;    // 0: not given
  std::optional<std::vector<OnnxDim>> dims;
};

struct OnnxGraph {
  std::string name;
  std::vector<OnnxValue> inputs;
  std::vector<OnnxValue> outputs;
  std::vector<OnnxTensor> initialisers;
  std::vector<std::string> sparse_initialisers;
  std::vector<OnnxNode> nodes;
};

/// A model-local function; inline_functions replaces each call by its body.
struct OnnxFunction {
  std::string name;
  std::string domain;
  std::string overload;
  std::vector<std::string> inputs;
  std::vector<std::string> outputs;
  std::map<std::string, OnnxValue> types;  // of inputs that have a type in a text
  std::vector<std::string> attrs;          // without a default
  std::vector<OnnxAttr> defaults;
  std::vector<OnnxNode> nodes;
  std::map<std::string, int64_t> opsets;
};

/// An exporter's note on a value: its role in the program, or the values from which it was precomputed.
struct OnnxMark {
  std::string kind;  // "PARAMETER", "BUFFER", "CONSTANT_TENSOR", ...; empty: unknown
  std::vector<std::string> folded_from;
};

/// Everything that was read from one file, and the memory that its tensors point into.
struct OnnxModel {
  std::string file;  // as the user named it
  int64_t ir_version = 0;
  std::string producer;
  std::map<std::string, int64_t> opsets;  // domain to version
  OnnxGraph graph;
  std::deque<OnnxTensor> parameters;  // initialisers that a training changes; they are inputs of the graph then
  std::vector<OnnxFunction> functions;
  std::vector<OnnxConfiguration> configurations;
  std::map<std::string, OnnxMark> marks;  // by the name of the value
  std::vector<std::string> lines;         // of a text model
  std::vector<Loc> call_sites;            // where a schedule calls functions
  /// Memory that the tensors' spans point into.
  std::vector<std::unique_ptr<void, void (*)(void*)>> memory;

  /// Whether an initialiser that is an input too is its default. Before IR 4 each initialiser had to be an input.
  bool has_defaults() const { return ir_version >= 4; }
  /// Takes ownership of the bytes and returns their new location.
  std::span<const std::byte> keep(std::vector<std::byte> bytes);
  /// Source position of a node for messages: where a schedule asks for it, its position in a text model, else the node
  /// itself.
  Loc loc(const OnnxNode& node, int index) const;
};

/// "float", "float16", "string", ...; "type 99" for numbers that ONNX does not know.
std::string element_type_name(int element_type);
/// Weft's dtype, if it has one.
std::optional<DType> dtype_of_element_type(int element_type);
/// The number of that name in the text syntax ("float", "int64"), or 0.
int element_type_of_name(std::string_view name);
/// "float[N, 3]", "optional(sequence(float[5]))", "map"; open dims by name, or "?".
std::string type_text(const OnnxValue& value);
/// Name of a node for messages: its own, or its first output's.
std::string shown_name(const OnnxNode& node);

}  // namespace weftc
