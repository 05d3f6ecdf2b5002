// Converts nodes, subgraphs and outputs of ONNX graphs to ops. Names determine a node's operands: values of its own
// graph, then initialisers and constants of the graphs around it. Anything else from outside is a capture. One error
// does not hide the next: a node that cannot be imported marks its results as failed, and their readers are skipped
// without a message.
#include "frontend/onnx_import.h"

#include <algorithm>

#include "frontend/sort_nodes.h"
#include "ir/base/contains.h"

namespace weftc {

ImportScope::ImportScope(const OnnxGraph& source, Graph& graph, ImportScope* parent)
    : source(source), graph(graph), parent(parent) {
  for (const OnnxTensor& tensor : source.initialisers) initialisers.emplace(tensor.name, &tensor);
  for (size_t n = 0; n < source.nodes.size(); ++n)
    for (const std::string& output : source.nodes[n].outputs)
      if (!output.empty()) makers.emplace(output, n);
}

std::string ImportState::unique_op_name(const std::string& name) {
  std::string made = name;
  for (int i = 2; !op_names.insert(made).second; ++i) made = name + "_" + std::to_string(i);
  return made;
}

std::optional<ConstantId> ImportState::constant(const OnnxTensor& tensor, const std::string& what, const Loc& loc) {
  const auto [at, first] = constants.emplace(&tensor, std::nullopt);
  if (!first) return at->second;
  if (const auto found = bytes.find(tensor, what, loc))
    at->second =
        module.constants.add_view(tensor.name, *dtype_of_element_type(tensor.element_type), tensor.dims, *found);
  return at->second;
}

NewOp new_op(OpKind kind, TensorType result) {
  NewOp op{};
  op.kind = kind;
  op.results.push_back(std::move(result));
  return op;
}

namespace {

/// Imports one graph or subgraph; ops are generic over the table of records.
class NodeImporter {
 public:
  NodeImporter(ImportState& state, ImportScope& scope) : state_(state), scope_(scope) {}

  bool nodes();
  bool outputs();

 private:
  bool node(const OnnxNode& node);
  bool constant_node(const OnnxNode& node, const Loc& loc, int index);
  bool operands(const OnnxNode& node, const OpDef& def, const Loc& loc, NewOp& made);
  bool check_arity(const OnnxNode& node, const OpDef& def, const Loc& loc, const std::vector<ValueId>& inputs);
  bool regions(const OnnxNode& node, const Loc& loc, NewOp& made);
  bool check_region(const OnnxNode& node, const OnnxGraph& graph, const Loc& loc);
  std::optional<Graph> region(const OnnxGraph& graph, const std::vector<std::string>& captures, const Loc& loc);
  OriginId origin(const OnnxNode& node, const Loc& loc, int index);
  void define(const OnnxNode& node, OpId op, const Loc& loc);

  enum class Found { Value, Failed, Missing };
  Found find(const std::string& name, ValueId& value);
  std::optional<ConstantId> outer_constant(const std::string& name, bool& failed);
  bool is_failed(const std::string& name) const;
  ValueId add_constant(const std::string& name, ConstantId constant);
  void report_missing(const std::string& name, size_t reader, const Loc& loc);
  bool depends(size_t node, size_t on) const;

  ImportState& state_;
  ImportScope& scope_;
  size_t at_ = 0;  // index of the node in the scope's graph
};

/// Adds a Constant op under its name in the graph.
ValueId NodeImporter::add_constant(const std::string& name, ConstantId constant) {
  const Constant& c = state_.module.constants[constant];
  NewOp made = new_op(OpKind::Constant, {c.dtype, shape_of(c.dims), {}});
  made.attrs = {{"value", constant}};
  made.name = state_.unique_op_name(name);
  made.result_names = {name};
  const ValueId value = scope_.graph.result(scope_.graph.add(std::move(made)));
  scope_.values[name] = value;
  return value;
}

/// The constant that `name` stands for, in this scope or an outer one. Nothing if it is not a constant, or, with
/// `failed`, if its tensor is damaged. A region gets a Constant op of its own instead of a capture, so that shapes
/// inside can be folded.
std::optional<ConstantId> NodeImporter::outer_constant(const std::string& name, bool& failed) {
  for (const ImportScope* scope = &scope_; scope; scope = scope->parent) {
    if (const auto value = scope->values.find(name); value != scope->values.end()) {
      const Op& producer = scope->graph.producer_op(value->second);
      if (producer.kind != OpKind::Constant) return {};
      return producer.constant("value");
    }
    if (const auto tensor = scope->initialisers.find(name); tensor != scope->initialisers.end()) {
      const auto constant =
          state_.constant(*tensor->second, "initializer '" + printable(name) + "'", tensor->second->loc);
      failed = !constant;
      return constant;
    }
  }
  return {};
}

/// True if an error was reported for the node that produces `name`.
bool NodeImporter::is_failed(const std::string& name) const {
  for (const ImportScope* scope = &scope_; scope; scope = scope->parent)
    if (scope->failed.contains(name)) return true;
  return false;
}

/// Finds the value of a name; adds a Constant op at its first use.
NodeImporter::Found NodeImporter::find(const std::string& name, ValueId& value) {
  if (const auto known = scope_.values.find(name); known != scope_.values.end()) {
    value = known->second;
    return Found::Value;
  }
  bool failed = is_failed(name);
  if (failed) return Found::Failed;
  if (const auto constant = outer_constant(name, failed)) {
    value = add_constant(name, *constant);
    return Found::Value;
  }
  return failed ? Found::Failed : Found::Missing;
}

/// True if `node` reads, directly or not, a result of `on`.
bool NodeImporter::depends(size_t node, size_t on) const {
  std::vector<size_t> open = {node};
  std::unordered_set<size_t> seen = {node};
  while (!open.empty()) {
    const size_t n = open.back();
    open.pop_back();
    if (n == on) return true;
    for (const std::string& input : scope_.source.nodes[n].inputs) {
      const auto maker = scope_.makers.find(input);
      if (maker != scope_.makers.end() && seen.insert(maker->second).second) open.push_back(maker->second);
    }
  }
  return false;
}

/// Reports why a name has no value: nothing produces it, it is sparse, or its node depends on this one.
void NodeImporter::report_missing(const std::string& name, size_t reader, const Loc& loc) {
  const auto maker = scope_.makers.find(name);
  if (maker == scope_.makers.end()) {
    for (const ImportScope* scope = &scope_; scope; scope = scope->parent)
      for (const std::string& sparse : scope->source.sparse_initialisers)
        if (sparse == name) {
          state_.diags.error("sparse-initializer-unsupported", loc,
                             "'{}' is a sparse initializer, which is not supported", printable(name));
          return;
        }
    state_.diags.error("undefined-value", loc, "value '{}' is read, but nothing makes it", printable(name));
  } else {
    const bool own = reader < scope_.source.nodes.size() && depends(maker->second, reader);
    state_.diags.error("node-cycle", loc, "value '{}' {}: the graph has a cycle", printable(name),
                       own ? "depends on this node's own result" : "comes from nodes that wait for each other");
  }
}

/// Records the node as the origin of its op, for messages and selectors.
OriginId NodeImporter::origin(const OnnxNode& node, const Loc& loc, int index) {
  state_.module.origins.push_back({node.whole.empty() ? shown_name(node) : node.whole, node.op_type, index, loc});
  return {static_cast<uint32_t>(state_.module.origins.size() - 1)};
}

/// Makes the results visible; refuses a name that exists already.
void NodeImporter::define(const OnnxNode& node, OpId op, const Loc& loc) {
  for (size_t r = 0; r < node.outputs.size(); ++r) {
    const std::string& name = node.outputs[r];
    if (name.empty()) continue;
    const bool taken =
        scope_.values.contains(name) || scope_.initialisers.contains(name) || scope_.failed.contains(name);
    if (taken)
      state_.diags.error("value-redefined", loc,
                         "value '{}' is made twice: here and by an earlier node, input or initializer",
                         printable(name));
    else if (op && r < scope_.graph.op(op).outputs.size())
      scope_.values[name] = scope_.graph.op(op).outputs[r];
    else
      scope_.failed.insert(name);
  }
}

/// Imports a Constant node, from whichever attribute holds the value.
bool NodeImporter::constant_node(const OnnxNode& node, const Loc& loc, int index) {
  const std::optional<ConstantId> constant = import_constant_node(state_, node, loc);
  OpId op;
  if (node.outputs.size() != 1 || node.outputs[0].empty()) {
    state_.diags.error("constant-outputs", loc, "a Constant has one output, but this has {}", node.outputs.size());
  } else if (constant) {
    const Constant& c = state_.module.constants[*constant];
    NewOp made = new_op(OpKind::Constant, {c.dtype, shape_of(c.dims), {}});
    made.attrs = {{"value", *constant}};
    made.name = node.name;
    made.origins = {origin(node, loc, index)};
    made.result_names = node.outputs;
    op = scope_.graph.add(std::move(made));
  }
  define(node, op, loc);
  return bool(op);
}

/// True for operands that may be absent although others follow: any operand of a Loop, whose carried optionals may
/// begin empty, and the lengths that are Scan-8's first operand.
static bool may_be_absent(const OnnxNode& node, int operand) {
  return node.op_type == "Loop" || (node.op_type == "Scan" && node.opset < 9 && operand == 0);
}

/// Checks the numbers of operands and results against the record. Only trailing operands may be absent, except optional
/// ones.
bool NodeImporter::check_arity(const OnnxNode& node, const OpDef& def, const Loc& loc,
                               const std::vector<ValueId>& inputs) {
  const int given = static_cast<int>(inputs.size());
  const int results = static_cast<int>(node.outputs.size());
  if (given < def.inputs.min || (def.inputs.max >= 0 && given > def.inputs.max)) {
    state_.diags.error("input-count", loc, "{} takes {}{} inputs, but has {}", full_op_name(node), def.inputs.min,
                       def.inputs.max < 0                 ? " or more"
                       : def.inputs.max == def.inputs.min ? ""
                                                          : " to " + std::to_string(def.inputs.max),
                       given);
    return false;
  }
  if (results < 1 || (def.outputs.max >= 0 && results > def.outputs.max)) {
    state_.diags.error("output-count", loc, "{} makes at most {} outputs, but has {}", full_op_name(node),
                       def.outputs.max, results);
    return false;
  }
  // In a list of any length, no operand may be absent.
  const bool is_list = def.inputs.max < 0;
  for (int i = 0; i < (is_list ? given : def.inputs.min); ++i) {
    if (inputs[i] || may_be_absent(node, i) || contains(def.inputs.optional, i)) continue;
    state_.diags.error("operand-missing", loc, "operand {} of {} is left out, but it is not optional", i,
                       full_op_name(node));
    return false;
  }
  return true;
}

/// Resolves the operands by name. Absent ones at the end are dropped; others become none ids.
bool NodeImporter::operands(const OnnxNode& node, const OpDef& def, const Loc& loc, NewOp& made) {
  bool ok = true;
  for (const std::string& input : node.inputs) {
    ValueId value;
    if (!input.empty()) {
      const Found found = find(input, value);
      if (found == Found::Missing) report_missing(input, at_, loc);
      ok &= found == Found::Value;
    }
    made.inputs.push_back(value);
  }
  if (!ok) return false;
  if (node.op_type == "Loop" && node.domain.empty() && made.inputs.size() < 2) made.inputs.resize(2);
  while (region_attrs(node).empty() && !made.inputs.empty() && !made.inputs.back()) made.inputs.pop_back();
  return check_arity(node, def, loc, made.inputs);
}

/// Checks that subgraphs have the inputs and outputs that ONNX prescribes for If, Loop and Scan.
bool NodeImporter::check_region(const OnnxNode& node, const OnnxGraph& graph, const Loc& loc) {
  const size_t inputs = node.inputs.size(), outputs = node.outputs.size();
  bool right = true;
  if (node.op_type == "If") right = inputs == 1 && graph.inputs.empty() && graph.outputs.size() == outputs;
  // Body: iteration, condition, carried -> condition, carried, scanned; Loop: count, condition, carried -> carried,
  // scanned.
  if (node.op_type == "Loop") {
    const size_t carried = std::max<size_t>(inputs, 2) - 2;
    right = graph.inputs.size() == carried + 2 && graph.outputs.size() >= carried + 1 &&
            outputs + 1 == graph.outputs.size();
  }
  // The first operand of Scan-8 is the lengths.
  if (node.op_type == "SequenceMap") right = graph.inputs.size() == inputs && graph.outputs.size() == outputs;
  if (node.op_type == "Scan")
    right = graph.inputs.size() + (node.opset < 9 ? 1 : 0) == inputs && graph.outputs.size() == outputs;
  if (!right)
    state_.diags.error(
        "subgraph-arity", loc,
        "{} has {} inputs and {} outputs, which does not fit its subgraph '{}' with {} inputs and {} outputs",
        node.op_type, inputs, outputs, printable(graph.name), graph.inputs.size(), graph.outputs.size());
  return right;
}

/// Imports a subgraph as a region whose parameters are its inputs, then the captures.
std::optional<Graph> NodeImporter::region(const OnnxGraph& source, const std::vector<std::string>& captures,
                                          const Loc& loc) {
  Graph graph;
  ImportScope inner(source, graph, &scope_);
  std::vector<std::string> parameters;
  for (const OnnxValue& input : source.inputs) parameters.push_back(input.name);
  parameters.insert(parameters.end(), captures.begin(), captures.end());
  for (const std::string& name : parameters) {
    NewOp made = new_op(OpKind::Input, {});
    made.name = state_.unique_op_name(name.empty() ? "parameter" : name);
    made.result_names = {name};
    const OpId op = graph.add(std::move(made));
    if (name.empty() || inner.values.emplace(name, graph.result(op)).second) continue;
    state_.diags.error("subgraph-parameter", loc, "subgraph '{}' has two inputs named '{}'", printable(source.name),
                       printable(name));
    return {};
  }
  if (!import_graph(state_, inner)) return {};
  return graph;
}

/// Imports the subgraphs of a node. Captures are found first, because all regions of an op take the same ones.
bool NodeImporter::regions(const OnnxNode& node, const Loc& loc, NewOp& made) {
  std::vector<const OnnxGraph*> graphs;
  for (const std::string& name : region_attrs(node)) {
    const OnnxAttr* attr = node.find(name);
    if (!attr || attr->kind != OnnxAttr::Kind::Graph) {
      state_.diags.error("subgraph-missing", loc, "{} needs the graph '{}'", node.op_type, name);
      return false;
    }
    graphs.push_back(&attr->graphs[0]);
  }
  for (const OnnxGraph* graph : graphs)
    if (!check_region(node, *graph, loc)) return false;
  std::vector<std::string> captures;
  for (const std::string& name : free_names(graphs)) {
    const auto value = scope_.values.find(name);
    if (is_failed(name)) return false;
    if (value == scope_.values.end() || scope_.graph.producer_op(value->second).kind == OpKind::Constant) continue;
    captures.push_back(name);
    made.inputs.push_back(value->second);
  }
  bool ok = true;
  for (const OnnxGraph* graph : graphs) {
    std::optional<Graph> made_region = region(*graph, captures, loc);
    ok &= made_region.has_value();
    if (made_region) made.regions.push_back(std::move(*made_region));
  }
  return ok;
}

/// Imports one node: operands, attributes, regions, then the record's own `import`, which handles differences between
/// opsets.
bool NodeImporter::node(const OnnxNode& node) {
  const int index = state_.nodes++;
  const Loc loc = state_.model.loc(node, index);
  if (is_constant_node(node)) return constant_node(node, loc, index);
  OpId op;
  const OpDef* def = is_supported(node) ? find_onnx_op(node.domain, node.op_type) : nullptr;
  if (def) {
    NewOp made = new_op(def->kind, {});
    bool ok = operands(node, *def, loc, made);
    ok &= import_attrs(state_, node, *def, loc, made.attrs);
    if (ok && regions(node, loc, made)) {
      made.results.resize(std::max<size_t>(node.outputs.size(), def->outputs.min));
      if (def->kind == OpKind::Loop)
        made.attrs.push_back({"carried", static_cast<int64_t>(std::max<size_t>(node.inputs.size(), 2) - 2)});
      if (def->kind == OpKind::Scan || def->kind == OpKind::SequenceMap)
        made.attrs.push_back({"operands", static_cast<int64_t>(node.inputs.size())});
      made.name = node.name;
      made.origins = {origin(node, loc, index)};
      made.result_names = node.outputs;
      op = scope_.graph.add(std::move(made));
      const OpView view(state_.module, scope_.graph, scope_.graph.op(op), &state_.diags);
      const bool imported = !def->import || def->import(scope_.graph, op, node.opset, view);
      if (!imported || !check_required_attrs(state_, node, scope_.graph.op(op), loc)) op = {};
      const auto bound = scope_.parent ? state_.count_bounds.end() : state_.count_bounds.find(node.name);
      if (op && bound != state_.count_bounds.end()) scope_.graph.edit(op).set("count_bound", bound->second);
    }
  }
  define(node, op, loc);
  return bool(op);
}

bool NodeImporter::nodes() {
  bool ok = true;
  for (at_ = 0; at_ < scope_.source.nodes.size(); ++at_) ok &= node(scope_.source.nodes[at_]);
  return ok;
}

/// Adds the graph's outputs by name.
bool NodeImporter::outputs() {
  bool ok = true;
  std::unordered_set<std::string> seen;
  const Loc loc = Loc::in_file(state_.model.file);
  for (const OnnxValue& output : scope_.source.outputs) {
    ValueId value;
    const Found found = find(output.name, value);
    if (found == Found::Missing)
      state_.diags.error("undefined-output", loc, "output '{}' of graph '{}' is made by nothing",
                         printable(output.name), printable(scope_.source.name));
    // Regions return by position; only the model's own outputs need distinct names.
    if (!seen.insert(output.name).second && !scope_.parent) {
      state_.diags.error("output-repeated", loc, "output '{}' is listed twice", printable(output.name));
      ok = false;
    }
    ok &= found == Found::Value;
    if (found == Found::Value) scope_.graph.add_output(value, output.name);
  }
  return ok;
}

}  // namespace

bool import_graph(ImportState& state, ImportScope& scope) {
  NodeImporter importer(state, scope);
  const bool nodes = importer.nodes();
  const bool outputs = importer.outputs();
  return nodes && outputs;
}

}  // namespace weftc
