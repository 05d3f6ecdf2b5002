// Run-time lengths in a Plan: the places where kernels read them, and the limits that a request must keep.
//
//   seq<=64                 a scalar in each place, which lies there before the first step
//   n, from a NameLength    the scalar that the kernel writes, in its own place
//   past + seq<=64          a limit, where the names alone would let it be more: the state has no more room
#include <algorithm>
#include <set>

#include "ir/base/check.h"
#include "ir/named_lengths.h"
#include "passes/plan/step_writer.h"

namespace weftc {

/// A buffer for each length of the inputs in each place: requests come to all ranks.
void StepWriter::make_lengths() {
  std::set<std::string> given;
  for (ValueId v : module_.graph.inputs())
    for_each_name(module_.graph.type(v).shape, [&](const std::string& name) { given.insert(name); });
  for (const std::string& name : given)
    for (uint32_t p = 0; p < module_.places.size(); ++p) {
      const BufferId id = new_buffer(name, {DType::I64, {}, {}}, module_.places[p].mesh, PlaceId{p});
      p_.plan.lengths.push_back({name, module_.lengths.at(name), PlaceId{p}, id, false});
    }
  limit_lengths(module_.graph);
  demand_relations();
}

/// True if the length cannot be read from the request alone.
bool StepWriter::is_made(const Length& length) const {
  bool made = false;
  for_each_name(length, [&](const LengthSymbolPtr& name) {
    made = made || std::none_of(p_.plan.lengths.begin(), p_.plan.lengths.end(),
                                [&](const LengthBuffer& given) { return given.name == name->text; });
  });
  return made;
}

/// The names of the lengths that ops of the graph and of its regions make.
static void find_made_names(const Graph& graph, std::set<std::string>& names) {
  for (OpId id = graph.first(); id; id = graph.next(id)) {
    if (graph.op(id).kind == OpKind::NameLength) names.insert(graph.op(id).text("name"));
    for (const Graph& region : graph.op(id).regions) find_made_names(region, names);
  }
}

/// Adds the relations that the model demands of its lengths, except for lengths that no op makes any more.
void StepWriter::demand_relations() {
  std::set<std::string> known;
  for (const LengthBuffer& given : p_.plan.lengths) known.insert(given.name);
  find_made_names(module_.graph, known);
  for (const LengthRelation& relation : module_.relations) {
    bool is_known = true, is_by_data = false;
    for (const Length& length : {relation.left, relation.right, relation.where}) {
      for_each_name(length, [&](const LengthSymbolPtr& name) { is_known = is_known && known.contains(name->text); });
      is_by_data = is_by_data || is_made(length);
    }
    if (is_known) p_.plan.demands.push_back({relation, is_by_data});
  }
}

/// The dimension that a user knows by this length: of the state that grows, or else of an output.
static std::string owner_of_length(const Module& module, const Length& length) {
  std::string owner = format("'{}'", length.text());
  for (const Graph::Output& output : module.graph.outputs()) {
    const Shape& shape = module.graph.type(output.value).shape;
    if (std::none_of(shape.begin(), shape.end(), [&](const Extent& e) { return length_of(e) == length; })) continue;
    for (const State& state : module.states)
      if (state.output == output.name) return format("state '{}' ('{}')", state.input, output.name);
    owner = format("'{}'", output.name);
  }
  return owner;
}

/// Notes limits of the lengths in a graph where their names alone would allow more or less.
void StepWriter::limit_lengths(const Graph& graph) {
  const auto limit = [&](const std::string& what, const Extent& extent, int64_t least, int64_t most) {
    for (LengthLimit& known : p_.plan.limits)
      if (known.length == *extent.length && known.what == what) {
        known.least = std::max(known.least, least), known.most = std::min(known.most, most);
        return;
      }
    p_.plan.limits.push_back({what, *extent.length, least, most, is_made(*extent.length)});
  };
  for (ValueId input : graph.inputs())
    for (const Extent& extent : graph.type(input).shape)
      if (&graph == &module_.graph && extent.is_run_time() && extent.length->low() > 0)
        limit(format("'{}'", graph.value(input).name), extent, extent.length->low(), extent.bound);
  for (OpId id = graph.first(); id; id = graph.next(id)) {
    const Op& op = graph.op(id);
    for (ValueId v : op.outputs)
      for (const Extent& extent : graph.type(v).shape)
        if (extent.is_run_time() && extent.bound < extent.length->high())
          limit(owner_of_length(module_, *extent.length), extent, 0, extent.bound);
    for (const Graph& region : op.regions) limit_lengths(region);
  }
}

BufferId StepWriter::length_buffer(const std::string& name, PlaceId place) const {
  for (const LengthBuffer& length : p_.plan.lengths)
    if (length.name == name && length.place == place) return length.buffer;
  check_failed(__FILE_NAME__, __LINE__, "the length '" + name + "' is not at hand");
}

/// The lengths that the kernel makes are where it writes them.
void StepWriter::note_made_lengths(const Op& op, const LaunchStep& launch) {
  const Graph& body = op.regions[0];
  for (size_t o = 0; o < body.outputs().size(); ++o) {
    const Op& made = body.producer_op(body.outputs()[o].value);
    if (made.kind != OpKind::NameLength) continue;
    const std::string& name = made.text("name");
    p_.plan.lengths.push_back(
        {name, module_.lengths.at(name), op.place, launch.operands[body.inputs().size() + o].buffer, true});
  }
}

}  // namespace weftc
