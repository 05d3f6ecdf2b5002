// Removes dead and duplicate ops after every pass, so that no pass has to clean up.
//
//   %a = Add(%x, %y), %b = Add(%x, %y)   ->   what read %b reads %a, and selectors find both names
#include <algorithm>
#include <string>
#include <unordered_map>
#include <unordered_set>

#include "ir/named_lengths.h"
#include "ir/op_def.h"
#include "ir/value_memory.h"
#include "passes/runner.h"
#include "passes/update_ops.h"

namespace weftc {

namespace {

/// True if something reads a result.
bool has_reader(const Graph& graph, const Op& op) {
  return std::any_of(op.outputs.begin(), op.outputs.end(), [&](ValueId v) { return !graph.value(v).uses.empty(); });
}

/// Removes ops without readers, from the end, so that the readers of an op are gone before it is reached. Keeps the op
/// that holds a run-time length as long as a value has that length, or a relation is demanded where it is not 0.
void remove_dead(Module& module, Graph& graph) {
  std::vector<OpId> order = graph.order();
  const LengthHolders holders(graph);
  std::unordered_set<ValueId> lengths;
  for (const LengthRelation& relation : module.relations)
    for_each_name(relation.where, [&](const LengthSymbolPtr& name) {
      if (const ValueId holder = holders.find(name->text)) lengths.insert(holder);
    });
  for (auto at = order.rbegin(); at != order.rend(); ++at) {
    const Op& op = graph.op(*at);
    const bool is_length =
        std::any_of(op.outputs.begin(), op.outputs.end(), [&](ValueId v) { return lengths.contains(v); });
    if (op.kind != OpKind::Input && !is_length && !has_reader(graph, op)) {
      for (ValueId v : op.outputs) module.unread.insert(graph.value(v).name);
      graph.erase(*at);
      continue;
    }
    holders.for_each(op, [&](ValueId v) { lengths.insert(v); });
  }
}

/// Adds a constant to a key: one element by its value, several by the constant's number.
void append_constant(std::string& key, const Module& module, ConstantId id) {
  const Constant& constant = module.constants[id];
  if (constant.count() != 1) {
    key += "#" + std::to_string(id.index);
    return;
  }
  key += dtype_name(constant.dtype);
  for (const std::byte each : constant.bytes) key += static_cast<char>(each);
}

/// Adds an attribute's bytes to a key.
void append_attr(std::string& key, const Module& module, const Attr& attr) {
  key += attr.name + "=";
  std::visit(
      [&](const auto& value) {
        using T = std::decay_t<decltype(value)>;
        if constexpr (std::is_same_v<T, std::string>)
          key += value;
        else if constexpr (std::is_same_v<T, ConstantId>)
          append_constant(key, module, value);
        else if constexpr (std::is_arithmetic_v<T>)
          key.append(reinterpret_cast<const char*>(&value), sizeof value);
        else
          key.append(reinterpret_cast<const char*>(value.data()), value.size() * sizeof(value[0]));
      },
      attr.value);
  key += ';';
}

/// Attributes name bounds: two shapes of equal bounds may have other run-time lengths.
void append_type(std::string& key, const TensorType& type) {
  for (const Extent& extent : type.shape) key += length_of(extent).text() + ",";
  for (int a = 0; a < type.layout.size(); ++a) key += state_text(type.layout[a]) + ",";
}

/// Adds an operand to a key: in an update, a number by its value, since parts of a training have constants of their
/// own.
void append_operand(std::string& key, const Module& module, const Graph& graph, const Op& op, ValueId v) {
  const Op* maker = v && is_of_update(module, op) ? &graph.producer_op(v) : nullptr;
  if (maker && maker->kind == OpKind::Constant && graph.type(v).count() == 1) {
    append_constant(key, module, maker->constant("value"));
    append_type(key, graph.type(v));
  } else {
    key += std::to_string(v.index);
  }
  key += ',';
}

/// Equal keys: the same op on the same operands with results of the same type.
std::string op_key(const Module& module, const Graph& graph, const Op& op) {
  std::string key = std::to_string(static_cast<int>(op.kind)) + "@" + std::to_string(op.place.index) + "(";
  for (ValueId v : op.inputs) append_operand(key, module, graph, op, v);
  for (const Attr& attr : op.attrs) append_attr(key, module, attr);
  if (op.block) key += "block " + std::to_string(*op.block) + ";";
  if (module.is_late(op)) key += "late;";
  for (ValueId v : op.outputs) append_type(key, graph.type(v)), key += '|';
  return key;
}

/// False for ops that must stay separate although they look alike: random draws are keyed by their node, regions are
/// not compared, and each copy has memory of its own. Equal constants of several elements are merged later, when they
/// are packed. The layout pass already shares reshards. Each stage of a pipeline, and each part of a training, has
/// constants of its own; ops know their stages once there are places.
bool may_merge(const Module& module, const Graph& graph, const Op& op) {
  if (op.kind == OpKind::Constant)
    return !module.places.empty() && !module.training && graph.type(op.outputs[0]).count() == 1;
  return category(op) != Category::Region && op.kind != OpKind::Input && op.kind != OpKind::RandomUniform &&
         category(op) != Category::Collective && !is_copy(graph, op);
}

/// Joins origins, so that either node's name selects the op that is kept; a schedule that names a value of the other
/// one is told which value stands for it.
void merge_into(Module& module, Graph& graph, OpId kept, OpId duplicate) {
  Op& op = graph.edit(kept);
  const Op& other = graph.op(duplicate);
  std::vector<OriginId> joined;
  std::set_union(op.origins.begin(), op.origins.end(), other.origins.begin(), other.origins.end(),
                 std::back_inserter(joined));
  op.origins = std::move(joined);
  for (size_t r = 0; r < other.outputs.size(); ++r) {
    module.folded[graph.value(other.outputs[r]).name] = {graph.value(op.outputs[r]).name};
    graph.replace_uses(other.outputs[r], op.outputs[r]);
  }
  graph.erase(duplicate);
}

void merge_duplicates(Module& module, Graph& graph) {
  std::unordered_map<std::string, OpId> seen;
  for (OpId id : graph.order()) {
    const Op& op = graph.op(id);
    if (!may_merge(module, graph, op)) continue;
    const auto [at, fresh] = seen.emplace(op_key(module, graph, op), id);
    if (!fresh) merge_into(module, graph, at->second, id);
  }
}

void clean_up(Module& module, Graph& graph) {
  for (OpId id : graph.order())
    for (Graph& region : graph.edit(id).regions) clean_up(module, region);
  merge_duplicates(module, graph);
  remove_dead(module, graph);
}

}  // namespace

void clean_up(Module& module) { clean_up(module, module.graph); }

}  // namespace weftc
