// Replaces ops on sequences and optionals by the tensors that their records give for the results.
//
//   %s = SequenceConstruct(%a, %b), %y = SequenceAt(%s, 1)          ->   %s is [%a, %b], and what read %y reads %b
//   If(%c, %s) { %s -> SequenceAt(%s, 0) }                          ->   If(%c, %a, %b) { %s.0, %s.1 -> %s.0 }
//   %s = If(%c) { SequenceConstruct(%x) } { SequenceConstruct(%y) } ->   %s.0 = If(%c) { %x } { %y }, %s is [%s.0]
//
// The runner removes the ops that have no readers any more.
#include "passes/prepare/unfold_sequences.h"

#include <algorithm>

namespace weftc {

bool reads_unfolded(const Graph& graph, const UnfoldedValues& values, OpId id) {
  return std::ranges::any_of(graph.op(id).inputs, [&](ValueId v) { return v && values.contains(v); });
}

bool type_values(const TypedGraph& in, OpId first, OpId end, std::vector<ValueId>& values) {
  NewOp holder{};
  holder.kind = OpKind::SequenceConstruct;
  holder.results.resize(1);
  holder.inputs = values;
  const OpId held = in.graph.add(std::move(holder), end);
  const int errors = in.diags.errors();
  in.infer(first == end ? held : first, held);
  values = in.graph.op(held).inputs;
  in.graph.erase(held);
  return in.diags.errors() == errors;
}

namespace {

const Unfolded* find(const UnfoldedValues& values, ValueId value) {
  const auto at = values.find(value);
  return at == values.end() ? nullptr : &at->second;
}

/// The same for all tensors that results stand for.
bool type_results(const TypedGraph& in, OpId first, OpId id, std::vector<Unfolded>& results) {
  std::vector<ValueId> tensors;
  for (const Unfolded& result : results) tensors.insert(tensors.end(), result.tensors.begin(), result.tensors.end());
  if (!type_values(in, first, id, tensors)) return false;
  size_t at = 0;
  for (Unfolded& result : results)
    for (ValueId& tensor : result.tensors) tensor = tensors[at++];
  return true;
}

/// The names of the tensors that a value stands for.
std::string element_name(const std::string& name, const Unfolded& unfolded, size_t element) {
  return unfolded.kind == Unfolded::Kind::Tensor ? name : name + "." + std::to_string(element);
}

/// Notes which tensors a result stands for. Tensors that were made for it, by ops from number `ops_before` on, take
/// over its name.
void take_result(const TypedGraph& in, ValueId result, Unfolded unfolded, size_t ops_before) {
  Graph& graph = in.graph;
  const std::string name = graph.value(result).name;
  graph.rename(result, name + "/unfolded");
  for (size_t k = 0; k < unfolded.tensors.size(); ++k)
    if (graph.producer(unfolded.tensors[k]).index >= ops_before)
      graph.rename(unfolded.tensors[k], element_name(name, unfolded, k));
  if (unfolded.kind == Unfolded::Kind::Tensor)
    graph.replace_uses(result, unfolded.tensors[0]);
  else
    in.values[result] = std::move(unfolded);
}

}  // namespace

bool unfold_op(const TypedGraph& in, OpId id) {
  Graph& graph = in.graph;
  const OpDef& def = op_def(graph.op(id));
  if (graph.op(id).kind == OpKind::Identity) {
    in.values[graph.result(id)] = in.values.at(graph.op(id).inputs[0]);
    return true;
  }
  if (!def.unfold)
    return OpView(in.module, graph, graph.op(id), &in.diags)
        .fail("sequence-unsupported", "{} reads a sequence or an optional, which it cannot", def.name);
  const size_t ops_before = graph.op_capacity();
  const OpId previous = graph.previous(id);
  Unfolding unfolding(in.module, graph, id, in.values, in.diags);
  std::vector<Unfolded> results = def.unfold(unfolding);
  if (results.empty()) return false;
  const OpId first = previous ? graph.next(previous) : graph.first();
  if (!type_results(in, first, id, results)) return false;
  const std::vector<ValueId> outputs = graph.op(id).outputs;
  for (size_t r = 0; r < outputs.size(); ++r) take_result(in, outputs[r], std::move(results[r]), ops_before);
  return true;
}

/// Parameter `p` of a region becomes as many as the operand has tensors, which the first op of the region puts
/// together.
static void unfold_parameter(Graph& region, size_t p, const Unfolded& operand) {
  const ValueId parameter = region.inputs()[p];
  const std::string name = region.value(parameter).name;
  const OpId first = region.first();
  NewOp whole{};
  whole.kind = operand.kind == Unfolded::Kind::Nothing ? OpKind::Optional : OpKind::SequenceConstruct;
  whole.results.resize(1);
  for (size_t k = 0; k < operand.tensors.size(); ++k) {
    NewOp made = copy_of(region.producer_op(parameter));
    made.results.resize(1);
    made.result_names = {element_name(name, operand, k)};
    whole.inputs.push_back(region.result(region.add(std::move(made), first)));
  }
  whole.name = name + "/elements";
  region.replace_uses(parameter, region.result(region.add(std::move(whole), first)));
  region.erase(region.producer(parameter));
}

/// Parameter `p` of a region becomes a constant of its own.
static void fix_parameter(Graph& region, size_t p, const Op& constant) {
  const ValueId parameter = region.inputs()[p];
  NewOp made = copy_of(constant);
  made.results = {region.type(parameter)};
  made.name = region.producer_op(parameter).name + "/constant";
  region.replace_uses(parameter, region.result(region.add(std::move(made), region.first())));
  region.erase(region.producer(parameter));
}

bool bring_in_captures(const TypedGraph& in, OpId id) {
  Graph& graph = in.graph;
  const bool loop = graph.op(id).kind == OpKind::Loop;
  const size_t first = loop ? 2 : 1;  // whose parameter is number `first` of a Loop, 0 of an If
  const size_t captures = loop ? 2 + static_cast<size_t>(int_of(graph.op(id), "carried")) : 1;
  for (size_t i = graph.op(id).inputs.size(); i-- > 0;) {
    const ValueId value = graph.op(id).inputs[i];
    if (!value) continue;
    const size_t parameter = loop ? i : i - 1;
    const Unfolded* found = find(in.values, value);
    if (found && i < first)
      return OpView(in.module, graph, graph.op(id), &in.diags).fail("tensor-operand", "operand {} must be a tensor", i);
    if (found) {
      const Unfolded operand = *found;
      for (Graph& region : graph.edit(id).regions) unfold_parameter(region, parameter, operand);
      graph.remove_input(id, i);
      for (const ValueId tensor : operand.tensors) graph.add_input(id, tensor);
    } else if (i >= captures && graph.producer_op(value).kind == OpKind::Constant) {
      for (Graph& region : graph.edit(id).regions) fix_parameter(region, parameter, graph.producer_op(value));
      graph.remove_input(id, i);
    }
  }
  return true;
}

std::vector<Unfolded> unfold_outputs(Graph& graph, const UnfoldedValues& values) {
  std::vector<Unfolded> stood_for;
  std::vector<Graph::Output> made;
  for (const Graph::Output& output : graph.outputs()) {
    const Unfolded* unfolded = find(values, output.value);
    stood_for.push_back(unfolded ? *unfolded : Unfolded::tensor(output.value));
    const Unfolded& last = stood_for.back();
    for (size_t k = 0; k < last.tensors.size(); ++k)
      made.push_back({last.tensors[k], element_name(output.name, last, k)});
  }
  if (!values.empty()) graph.set_outputs(std::move(made));
  return stood_for;
}

/// True if branches agree on the kind of each result, though not on its tensors; else reports.
static bool branches_agree(const TypedGraph& in, OpId id, const std::vector<std::vector<Unfolded>>& branches) {
  const OpView view(in.module, in.graph, in.graph.op(id), &in.diags);
  if (in.graph.op(id).kind != OpKind::If)
    return view.fail("sequence-unsupported", "a loop returns a sequence that it does not begin with");
  for (size_t r = 0; r < branches[0].size(); ++r) {
    const Unfolded &then_value = branches[0][r], &else_value = branches[1][r];
    if (then_value.kind == else_value.kind && then_value.tensors.size() == else_value.tensors.size()) continue;
    return view.fail("if-sequence-runtime-unsupported",
                     "the branches give sequences of {} and {} tensors for output {}: the condition must be known at "
                     "compile time",
                     then_value.tensors.size(), else_value.tensors.size(), r);
  }
  return true;
}

std::optional<OpId> unfold_results(const TypedGraph& in, OpId id, const std::vector<std::vector<Unfolded>>& branches) {
  if (!branches_agree(in, id, branches)) return {};
  const std::vector<Unfolded>& shapes = branches[0];
  const std::vector<ValueId> outputs = in.graph.op(id).outputs;
  NewOp made = copy_of(in.graph.op(id));
  made.inputs = in.graph.op(id).inputs;
  in.graph.rename_op(id, made.name + "/unfolded");
  made.regions = std::move(in.graph.edit(id).regions);
  for (const Unfolded& shape : shapes) made.results.resize(made.results.size() + shape.tensors.size());
  const size_t ops_before = in.graph.op_capacity();
  const OpId added = in.graph.add(std::move(made), id);
  const std::vector<ValueId> results = in.graph.op(added).outputs;
  size_t at = 0;
  for (size_t r = 0; r < outputs.size(); ++r) {
    Unfolded unfolded = shapes[r];
    for (ValueId& tensor : unfolded.tensors) tensor = results[at++];
    take_result(in, outputs[r], std::move(unfolded), ops_before);
  }
  return added;
}

}  // namespace weftc
