// The parts of the ONNX importer (onnx_reader.h describes their result).
#pragma once
#include <unordered_map>
#include <unordered_set>

#include "frontend/onnx_ops.h"
#include "frontend/onnx_options.h"
#include "frontend/tensor_bytes.h"
#include "ir/op_def.h"

namespace weftc {

/// A graph or subgraph that is being imported, and the names visible in it.
struct ImportScope {
  ImportScope(const OnnxGraph& source, Graph& graph, ImportScope* parent);

  const OnnxGraph& source;
  Graph& graph;
  ImportScope* parent;
  std::unordered_map<std::string, ValueId> values;
  /// Names whose node could not be imported: their readers are skipped without a further message.
  std::unordered_set<std::string> failed;
  std::unordered_map<std::string, const OnnxTensor*> initialisers;
  std::unordered_map<std::string, size_t> makers;  // node that produces each name
};

/// An op with one result, to be completed.
NewOp new_op(OpKind kind, TensorType result);

/// State shared by all parts.
struct ImportState {
  ImportState(OnnxModel& model, Module& module, Diags& diags)
      : model(model), module(module), diags(diags), bytes(model, diags) {}

  OnnxModel& model;
  Module& module;
  Diags& diags;
  TensorBytes bytes;
  std::unordered_set<std::string> op_names;  // taken names, in the whole module
  std::unordered_map<const OnnxTensor*, std::optional<ConstantId>> constants;
  int nodes = 0;  // imported so far: the next node's index
  /// Bounds that --dim gives for numbers that data decides, by the names of the nodes that produce them.
  std::unordered_map<std::string, int64_t> count_bounds;
  std::vector<std::string> defaulted;  // inputs that start as their initialisers and are their own next values

  std::string unique_op_name(const std::string& name);
  /// The constant of a tensor, created once; nothing after reporting.
  std::optional<ConstantId> constant(const OnnxTensor& tensor, const std::string& what, const Loc& loc);
};

/// Adds the Input ops of the model, its bound inputs as Constants, and the lengths of bounded dims. False after
/// reporting.
bool import_inputs(ImportState& state, const ReadOptions& options, ImportScope& scope);

/// Imports all nodes and outputs of the scope's graph. False after reporting.
bool import_graph(ImportState& state, ImportScope& scope);

/// The attributes of a node by the record, except graphs; false after reporting.
bool import_attrs(ImportState& state, const OnnxNode& node, const OpDef& def, const Loc& loc, Attrs& attrs);
/// True if an imported op has all that its record requires, as an attribute or as the operand that becomes one.
bool check_required_attrs(ImportState& state, const OnnxNode& node, const Op& op, const Loc& loc);
/// The tensor of a Constant node; nothing after reporting.
std::optional<ConstantId> import_constant_node(ImportState& state, const OnnxNode& node, const Loc& loc);

}  // namespace weftc
