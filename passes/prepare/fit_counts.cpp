// A Slice cuts a dimension to its length; a Concat with zeros fills it up.
#include "passes/prepare/fit_counts.h"

#include <algorithm>

#include "ir/builder.h"
#include "ir/ops/selection.h"
#include "ir/tied_extents.h"
#include "passes/prepare/relate_lengths.h"

namespace weftc {

namespace {

/// Which dimensions of operands are to have another length.
struct WantedLength {
  LengthRelation relation;
  Length count;  // the length of the operand
  Extent wanted;
};

/// A dimension of this length: as an operand has it, or else by its own bounds.
Extent extent_of(const OpView& op, const Length& length, const ShapeValues& shapes) {
  for (int i = 0; i < op.inputs(); ++i)
    for (const Extent& extent : op.has(i) ? op.type(i).shape : Shape{})
      if (length_of(extent) == length) return extent;
  return shapes.extent(length);
}

bool is_counted(const Module& module, const Length& length) {
  return !length.is_constant() && !is_given(module, length);
}

/// w where `smaller` is min(length, w).
std::optional<Length> limit_of(const Length& smaller, const Length& length) {
  if (smaller.terms().size() != 1 || smaller.terms()[0].factors.size() != 1 || smaller.terms()[0].coefficient != 1)
    return {};
  const LengthSymbol& symbol = *smaller.terms()[0].factors[0];
  if (symbol.kind != LengthSymbol::Kind::Minimum) return {};
  for (const size_t i : {size_t{0}, size_t{1}})
    if (symbol.operands[i] == length) return symbol.operands[1 - i];
  return {};
}

/// The op's demand on two lengths, at least one of which depends on data.
WantedLength wanted_length(const OpView& op, const LengthRelation& relation, const ShapeValues& shapes) {
  const Length &left = relation.left, &right = relation.right;
  if (relation.may_be_less) return {relation, left, shapes.extent(minimum(left, right))};
  if (const std::optional<Length> limit = limit_of(left, right))
    return {{"", right, *limit, true}, right, extent_of(op, left, shapes)};
  if (const std::optional<Length> limit = limit_of(right, left))
    return {{"", left, *limit, true}, left, extent_of(op, right, shapes)};
  if (is_counted(op.module(), left)) return {relation, left, extent_of(op, right, shapes)};
  return {relation, right, extent_of(op, left, shapes)};
}

/// For a product with a vector: its length is that of the dimension that is summed over.
std::vector<LengthRelation> relations_of_vectors(const OpView& op) {
  const Shape &a = op.type(0).shape, &b = op.type(1).shape;
  const Extent &left = a.back(), &right = b.size() == 1 ? b[0] : b[b.size() - 2];
  if (length_of(left) == length_of(right)) return {};
  return {{"", length_of(left.is_run_time() ? left : right), length_of(left.is_run_time() ? right : left)}};
}

/// For an op whose operands are broadcast to its result.
std::vector<LengthRelation> relations_of_broadcast(const OpView& op) {
  std::vector<LengthRelation> relations;
  const Shape& result = op.result_type(0).shape;
  for (int i = 0; i < op.inputs(); ++i) {
    const Shape& own = op.type(i).shape;
    for (size_t d = 1; d <= own.size(); ++d) {
      const Extent &from = own[own.size() - d], &to = result[result.size() - d];
      if (!is_one(from) && !(length_of(from) == length_of(to)))
        relations.push_back({"", length_of(from), length_of(to)});
    }
  }
  return relations;
}

/// The op's own demands on lengths; nothing for an op whose parts state them.
std::vector<LengthRelation> demands_of(const OpView& op) {
  if (ties_operands(op)) return length_relations(op);
  const OpKind kind = op.op().kind;
  if (kind == OpKind::MatMul) return relations_of_vectors(op);
  return kind == OpKind::Sum || kind == OpKind::Mean ? relations_of_broadcast(op) : std::vector<LengthRelation>{};
}

std::vector<WantedLength> wanted_lengths(const OpView& op, const ShapeValues& shapes) {
  std::vector<WantedLength> wanted;
  for (const LengthRelation& relation : demands_of(op)) {
    if (relation.may_be_less && relation.left.is_constant()) continue;  // there is nothing to be cut
    if (!is_counted(op.module(), relation.left) && !is_counted(op.module(), relation.right)) continue;
    const Length room = relation.right - relation.left;
    if (room.high() < 0 || (room.low() > 0 && !relation.may_be_less)) continue;  // no data could make them so
    wanted.push_back(wanted_length(op, relation, shapes));
  }
  return wanted;
}

/// `x` with dimension `d` of the length that is wanted.
ValueId fitted(Builder& build, ValueId x, size_t d, const Extent& wanted) {
  Shape shape = build.type(x).shape;
  const Length count = length_of(shape[d]), whole = length_of(wanted), kept = minimum(count, whole);
  if (!(kept == count))
    x = shortened(build, x, static_cast<int64_t>(d),
                  kept == whole ? wanted : run_time_extent(std::min(shape[d].bound, wanted.bound), kept));
  if (kept == whole) return x;
  shape[d] = ShapeValues().extent(whole - kept);
  const ValueId zero = build.scalar(x, 0);
  const ValueId zeros = build.with_lengths(build.op(OpKind::Expand, {zero}, {{"shape", bounds(shape)}}), shape);
  const ValueId all = build.op(OpKind::Concat, {x, zeros}, {{"axis", static_cast<int64_t>(d)}});
  shape[d] = wanted;
  TensorType type = build.type(all);
  type.shape[d] = wanted;
  build.graph().retype(all, std::move(type));
  return all;
}

void add_relation(Module& module, const Op& op, LengthRelation relation) {
  relation.what = node_text(module, op);
  if (std::ranges::find(module.relations, relation) == module.relations.end())
    module.relations.push_back(std::move(relation));
}

}  // namespace

bool fit_counts(Module& module, Graph& graph, OpId id, const ShapeValues& shapes) {
  const Op op = graph.op(id);
  const auto is_open = [&](ValueId v) { return v && !is_static(graph.type(v).shape); };
  if (&graph != &module.graph || !std::ranges::any_of(op.inputs, is_open)) return false;
  bool is_changed = false;
  for (const WantedLength& each : wanted_lengths(OpView(module, graph, op, nullptr, &shapes), shapes)) {
    bool is_of_operand = false;
    for (size_t i = 0; i < op.inputs.size(); ++i)
      for (size_t d = 0; op.inputs[i] && d < graph.type(graph.op(id).inputs[i]).shape.size(); ++d) {
        const ValueId operand = graph.op(id).inputs[i];
        if (!(length_of(graph.type(operand).shape[d]) == each.count)) continue;
        Builder build(module, graph, id, op);
        graph.set_input(id, i, fitted(build, operand, d, each.wanted));
        is_of_operand = true;
      }
    if (is_of_operand) add_relation(module, op, each.relation);
    is_changed |= is_of_operand;
  }
  return is_changed;
}

void fit_reshaped(Module& module, Graph& graph, OpId id, const ShapeValues& shapes) {
  const Op op = graph.op(id);
  const OpView view(module, graph, op, nullptr, &shapes);
  const bool is_typed = op.kind == OpKind::Reshape && !view.result_type(0).shape.empty();
  if (op.kind != OpKind::Reshape || is_typed || &graph != &module.graph) return;
  const std::optional<std::vector<Length>> asked = view.lengths_of("shape", 1);
  const Shape from = view.type(0).shape;
  const auto is_counted_dim = [&](const Extent& extent) { return is_counted(module, length_of(extent)); };
  const auto counted = std::ranges::find_if(from, is_counted_dim);
  if (!asked || counted == from.end() || std::ranges::count_if(from, &Extent::is_run_time) != 1) return;
  constexpr int64_t kMost = int64_t{1} << 40;
  int64_t wanted = 1, others = 1;
  for (size_t i = 0; i < asked->size(); ++i) {
    Length each = (*asked)[i];
    if (each == 0 && !int_of(op, "allowzero") && i < from.size()) each = length_of(from[i]);
    if (!each.is_constant() || each.constant() < 1 || each.constant() > kMost / wanted) return;
    wanted *= each.constant();
  }
  const auto d = static_cast<size_t>(counted - from.begin());
  for (size_t i = 0; i < from.size(); ++i) others *= i == d ? 1 : from[i].bound;
  if (others == 0 || wanted % others != 0 || wanted / others > counted->bound) return;
  Builder build(module, graph, id, op);
  graph.set_input(id, 0, fitted(build, op.inputs[0], d, {wanted / others, {}}));
  add_relation(module, op, {"", length_of(*counted), wanted / others});
}

}  // namespace weftc
