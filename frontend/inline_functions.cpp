// Inlines model-local functions by renaming: values of a body are prefixed with the call's name. Names stay unique, and
// a schedule can select nodes inside a call.
//
//   f (a) => (b) { t = Relu(a)  b = Neg(t) };  [c1] y = f(x)    ->    t = "c1/t" = Relu(x)   y = Neg("c1/t")
#include "frontend/inline_functions.h"

#include <unordered_map>

#include "frontend/fresh_names.h"

namespace weftc {

namespace {

/// Small files can describe exponentially many nodes, by functions that call each other twice.
constexpr size_t kMostNodes = size_t{1} << 20;

using Renames = std::unordered_map<std::string, std::string>;

/// Expands calls depth first. `stack_` holds the functions being expanded, to find recursion.
class Inliner {
 public:
  Inliner(OnnxModel& model, Diags& diags) : model_(model), diags_(diags), names_(model.graph) {}
  bool run();

 private:
  void expand(std::vector<OnnxNode>& nodes);
  void expand_subgraphs(OnnxNode& node);
  void expand_call(const OnnxNode& call, const OnnxFunction& function, std::vector<OnnxNode>& into);
  std::vector<OnnxNode> instance(const OnnxNode& call, const OnnxFunction& function);
  void bind_operands(const OnnxNode& call, const OnnxFunction& function, Renames& names,
                     std::vector<OnnxNode>& aliases);
  OnnxNode alias(const OnnxNode& call, const std::string& from, const std::string& to) const;

  OnnxNode instance_node(const OnnxNode& node, const OnnxNode& call, const OnnxFunction& function, Renames& names);
  OnnxGraph instance_graph(const OnnxGraph& graph, const OnnxNode& call, const OnnxFunction& function, Renames names);
  std::vector<OnnxAttr> instance_attrs(const OnnxNode& node, const OnnxNode& call, const OnnxFunction& function,
                                       Renames& names);
  /// The new name of a value of the body. A name that the body never defines stays undefined under its new name.
  std::string renamed(const std::string& name, const OnnxNode& call, Renames& names);
  std::string define(const std::string& name, const OnnxNode& call, Renames& names);

  const OnnxFunction* find(const OnnxNode& node) const;
  void fail(std::string id, const OnnxNode& call, const std::string& message);

  OnnxModel& model_;
  Diags& diags_;
  std::unordered_map<std::string, const OnnxFunction*> functions_;
  FreshNames names_;  // of the model; instances must not repeat them
  std::vector<const OnnxFunction*> stack_;
  size_t made_ = 0;
  bool ok_ = true;
};

/// The key that identifies a function; names contain no line end.
std::string key_of(const std::string& domain, const std::string& name, const std::string& overload) {
  return domain + '\n' + name + '\n' + overload;
}

const OnnxFunction* Inliner::find(const OnnxNode& node) const {
  const auto at = functions_.find(key_of(node.domain, node.op_type, node.overload));
  return at == functions_.end() ? nullptr : at->second;
}

/// Reports the first error only: later ones are consequences.
void Inliner::fail(std::string id, const OnnxNode& call, const std::string& message) {
  if (ok_) diags_.error(std::move(id), model_.loc(call, 0), "{}", message);
  ok_ = false;
}

/// Gives a value of the body a unique name.
std::string Inliner::define(const std::string& name, const OnnxNode& call, Renames& names) {
  if (name.empty()) return "";
  return names[name] = names_.fresh(shown_name(call) + "/" + name);
}

std::string Inliner::renamed(const std::string& name, const OnnxNode& call, Renames& names) {
  if (name.empty()) return "";
  if (const auto at = names.find(name); at != names.end()) return at->second;
  return define(name, call, names);
}

/// Attributes of a node of the body: a reference to the function's attribute takes the call's value, else the
/// default.
std::vector<OnnxAttr> Inliner::instance_attrs(const OnnxNode& node, const OnnxNode& call, const OnnxFunction& function,
                                              Renames& names) {
  std::vector<OnnxAttr> attrs;
  for (const OnnxAttr& attr : node.attrs) {
    if (attr.reference.empty()) {
      attrs.push_back(attr);
      for (OnnxGraph& graph : attrs.back().graphs) graph = instance_graph(graph, call, function, names);
      continue;
    }
    const OnnxAttr* given = call.find(attr.reference);
    for (const OnnxAttr& otherwise : function.defaults)
      if (!given && otherwise.name == attr.reference) given = &otherwise;
    if (!given) continue;  // an optional attribute that the call omits is omitted in the body
    attrs.push_back(*given);
    attrs.back().name = attr.name;
  }
  return attrs;
}

/// A node of the body under the call's names, with the function's own opset.
OnnxNode Inliner::instance_node(const OnnxNode& node, const OnnxNode& call, const OnnxFunction& function,
                                Renames& names) {
  OnnxNode made = node;
  made.call_site = call.call_site;
  if (!node.name.empty()) made.name = shown_name(call) + "/" + node.name;
  made.attrs = instance_attrs(node, call, function, names);
  for (std::string& input : made.inputs) input = renamed(input, call, names);
  for (std::string& output : made.outputs) output = renamed(output, call, names);
  if (made.opset == 0) {
    const auto opset = function.opsets.find(node.domain);
    if (opset != function.opsets.end()) made.opset = static_cast<int>(opset->second);
  }
  return made;
}

/// A subgraph of the body. `names` is a copy: names that the subgraph defines are not visible outside.
OnnxGraph Inliner::instance_graph(const OnnxGraph& graph, const OnnxNode& call, const OnnxFunction& function,
                                  Renames names) {
  OnnxGraph made = graph;
  for (OnnxValue& input : made.inputs) input.name = define(input.name, call, names);
  for (OnnxTensor& tensor : made.initialisers) {
    // An initialiser may also be listed as an input: it is one value with one name.
    bool listed = false;
    for (const OnnxValue& input : graph.inputs) listed |= input.name == tensor.name;
    tensor.name = listed ? renamed(tensor.name, call, names) : define(tensor.name, call, names);
  }
  for (OnnxNode& node : made.nodes) {
    for (const std::string& output : node.outputs) define(output, call, names);
    node = instance_node(node, call, function, names);
  }
  for (OnnxValue& output : made.outputs) output.name = renamed(output.name, call, names);
  return made;
}

/// A node that gives a value another name.
OnnxNode Inliner::alias(const OnnxNode& call, const std::string& from, const std::string& to) const {
  OnnxNode node;
  node.op_type = "Identity";
  node.inputs = {from};
  node.outputs = {to};
  node.opset = 13;
  node.line = call.line;
  node.column = call.column;
  node.call_site = call.call_site;
  return node;
}

/// Gives operands and results of the body their names at the call. A result that is an operand, or that is returned
/// twice, needs an Identity after the body.
void Inliner::bind_operands(const OnnxNode& call, const OnnxFunction& function, Renames& names,
                            std::vector<OnnxNode>& aliases) {
  for (size_t i = 0; i < function.inputs.size(); ++i)
    names[function.inputs[i]] = i < call.inputs.size() ? call.inputs[i] : "";
  for (size_t i = 0; i < function.outputs.size() && i < call.outputs.size(); ++i) {
    if (call.outputs[i].empty()) continue;
    const auto [at, first] = names.emplace(function.outputs[i], call.outputs[i]);
    if (!first) aliases.push_back(alias(call, at->second, call.outputs[i]));
  }
}

/// The nodes of one call, before their own calls are expanded.
std::vector<OnnxNode> Inliner::instance(const OnnxNode& call, const OnnxFunction& function) {
  Renames names;
  std::vector<OnnxNode> nodes, aliases;
  bind_operands(call, function, names, aliases);
  nodes.reserve(function.nodes.size() + aliases.size());
  for (const OnnxNode& node : function.nodes) nodes.push_back(instance_node(node, call, function, names));
  nodes.insert(nodes.end(), aliases.begin(), aliases.end());
  return nodes;
}

/// Checks the call, and expands the calls in its instance.
void Inliner::expand_call(const OnnxNode& call, const OnnxFunction& function, std::vector<OnnxNode>& into) {
  for (const OnnxFunction* outer : stack_)
    if (outer == &function)
      return fail("function-recursive", call, "function '" + printable(function.name) + "' calls itself");
  if (call.inputs.size() > function.inputs.size() || call.outputs.size() > function.outputs.size())
    return fail(
        "function-arity", call,
        format("function '{}' has {} inputs and {} outputs, but the call has {} and {}", printable(function.name),
               function.inputs.size(), function.outputs.size(), call.inputs.size(), call.outputs.size()));
  if (stack_.size() >= 64) return fail("function-depth", call, "functions are nested more than 64 deep");
  stack_.push_back(&function);
  std::vector<OnnxNode> nodes = instance(call, function);
  expand(nodes);
  stack_.pop_back();
  for (OnnxNode& node : nodes) into.push_back(std::move(node));
}

void Inliner::expand_subgraphs(OnnxNode& node) {
  for (OnnxAttr& attr : node.attrs)
    for (OnnxGraph& graph : attr.graphs) expand(graph.nodes);
}

/// Replaces calls among the nodes by instances, in subgraphs first.
void Inliner::expand(std::vector<OnnxNode>& nodes) {
  std::vector<OnnxNode> expanded;
  expanded.reserve(nodes.size());
  for (OnnxNode& node : nodes) {
    if (!ok_) return;
    if (++made_ > kMostNodes) return fail("function-size", node, "inlined functions make more than 2^20 nodes");
    expand_subgraphs(node);
    if (const OnnxFunction* function = find(node))
      expand_call(node, *function, expanded);
    else
      expanded.push_back(std::move(node));
  }
  nodes = std::move(expanded);
}

bool Inliner::run() {
  for (const OnnxFunction& function : model_.functions) {
    const bool first = functions_.emplace(key_of(function.domain, function.name, function.overload), &function).second;
    if (first) continue;
    diags_.error("function-repeated", Loc::in_file(model_.file), "function '{}' of domain '{}' is defined twice",
                 printable(function.name), printable(function.domain));
    ok_ = false;
  }
  if (ok_) expand(model_.graph.nodes);
  return ok_;
}

}  // namespace

bool inline_functions(OnnxModel& model, Diags& diags) { return model.functions.empty() || Inliner(model, diags).run(); }

}  // namespace weftc
