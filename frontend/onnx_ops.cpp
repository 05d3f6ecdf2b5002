// Decides which nodes the importer can read. Reports each unsupported op once, with a hint: a later opset, or the same
// operator in another domain.
#include "frontend/onnx_ops.h"

#include <algorithm>

#include "frontend/old_opsets.h"
#include "ir/op_def.h"

namespace weftc {

std::string full_op_name(const OnnxNode& node) {
  return printable(node.domain.empty() ? node.op_type : node.domain + "." + node.op_type);
}

std::vector<std::string> region_attrs(const OnnxNode& node) {
  if (!node.domain.empty()) return {};
  if (node.op_type == "If") return {"then_branch", "else_branch"};
  if (node.op_type == "Loop" || node.op_type == "Scan" || node.op_type == "SequenceMap") return {"body"};
  return {};
}

bool is_constant_node(const OnnxNode& node) {
  return (node.domain.empty() || node.domain == "weft") && node.op_type == "Constant";
}

/// The first opset of the node's domain in which the record reads this name.
static int since(const OpDef& def, const OnnxNode& node) {
  const int oldest = node.domain.empty() ? first_old_form(node.op_type) : 1;
  if (oldest < kOldestForm && node.domain.empty()) return oldest;
  for (const OnnxName& alias : def.aliases)
    if (node.domain == alias.domain && node.op_type == alias.name) return std::max(alias.since, oldest);
  return std::max(def.onnx.since, oldest);
}

bool is_supported(const OnnxNode& node) {
  if (is_constant_node(node)) return true;
  const OpDef* def = find_onnx_op(node.domain, node.op_type);
  return def && node.overload.empty() && (node.opset == 0 || node.opset >= since(*def, node));
}

namespace {

/// All nodes of one op that is not supported.
struct Refused {
  Loc loc;
  std::string op;
  std::string why;
  std::vector<std::string> nodes;
};

/// The operator of that name in another domain; "" if there is no such operator.
std::string elsewhere(const OnnxNode& node) {
  for (const OpDef* def : all_op_defs()) {
    std::vector<OnnxName> spellings = def->aliases;
    spellings.insert(spellings.begin(), def->onnx);
    for (const OnnxName& other : spellings)
      if (node.op_type == other.name) return *other.domain ? format("{}.{}", other.domain, other.name) : other.name;
  }
  return "";
}

/// A hint after "is not supported": the opset from which it is supported, or the domain in which it is.
std::string why_refused(const OnnxNode& node) {
  const OpDef* def = find_onnx_op(node.domain, node.op_type);
  if (def) return node.overload.empty() ? format(" in opset {}, only from {} on", node.opset, since(*def, node)) : "";
  const std::string other = elsewhere(node);
  return other.empty() ? "" : format(", but {} is", other);
}

/// Collects refused nodes by op, subgraphs included; `index` counts nodes as the importer does.
void collect_refused(const OnnxModel& model, const OnnxGraph& graph, int& index, std::vector<Refused>& refused) {
  for (const OnnxNode& node : graph.nodes) {
    const int at = index++;
    for (const OnnxAttr& attr : node.attrs)
      for (const OnnxGraph& inner : attr.graphs) collect_refused(model, inner, index, refused);
    if (is_supported(node)) continue;
    const std::string op = full_op_name(node);
    auto known = std::find_if(refused.begin(), refused.end(), [&](const Refused& r) { return r.op == op; });
    if (known == refused.end()) known = refused.insert(refused.end(), {model.loc(node, at), op, why_refused(node), {}});
    known->nodes.push_back(format("'{}'", printable(shown_name(node))));
  }
}

/// The first few names, and the number of further ones.
std::string node_list(const std::vector<std::string>& nodes) {
  constexpr size_t kShown = 8;
  const std::vector<std::string> shown(nodes.begin(), nodes.begin() + std::min(kShown, nodes.size()));
  return join(shown, ", ") + (nodes.size() > kShown ? format(" and {} more", nodes.size() - kShown) : "");
}

}  // namespace

bool check_supported(const OnnxModel& model, Diags& diags) {
  std::vector<Refused> refused;
  int index = 0;
  collect_refused(model, model.graph, index, refused);
  for (const Refused& r : refused)
    diags.error("op-unsupported", r.loc, "operator {} is not supported{}; {} node{} it: {}", r.op, r.why,
                r.nodes.size(), r.nodes.size() == 1 ? " uses" : "s use", node_list(r.nodes));
  return refused.empty();
}

}  // namespace weftc
