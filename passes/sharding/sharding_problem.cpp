#include "passes/sharding/sharding_problem.h"

#include <algorithm>
#include <functional>

#include "ir/base/check.h"
#include "ir/op_def.h"
#include "passes/sharding/value_peak.h"

namespace weftc {

ShardingProblem::ShardingProblem(const Module& module, LayerClasses classes, const KeptLayouts& kept,
                                 const Ceilings& ceilings, const ExchangeSeconds& exchange,
                                 std::optional<int64_t> memory)
    : module_(module),
      graph_(module.graph),
      mesh_(module.mesh(module.graph, PlaceId(0))),
      classes_(std::move(classes)),
      kept_(kept),
      slices_(module, graph_, classes_, kept),
      costs_(module, graph_, mesh_, ceilings, exchange) {
  WEFT_CHECK(module.places.size() == 1, "layouts are chosen within one place");
  add_ops();
  add_values();
  add_edges();
  add_states();
  if (memory) add_memory(*memory);
  choose_unit();
}

void ShardingProblem::add_ops() {
  for (const LayerClasses::Class& one : classes_.all()) {
    std::vector<OpChoice> choices = op_choices(module_, graph_, one.ops.front(), slices_, kept_);
    PartitionProblem::Node node;
    for (const OpChoice& choice : choices)
      node.costs.push_back(costs_.computing(one.ops.front(), choice) * static_cast<int64_t>(one.ops.size()));
    problem_.nodes.push_back(std::move(node));
    op_choices_.push_back(std::move(choices));
  }
}

void ShardingProblem::add_values() {
  for (const LayerClasses::Class& one : classes_.all()) {
    value_nodes_.emplace_back();
    for (const ValueId value : graph_.op(one.ops.front()).outputs) {
      value_nodes_.back().push_back(static_cast<int>(problem_.nodes.size()));
      values_.push_back({value, value_choices(module_, graph_, value, slices_, kept_)});
      PartitionProblem::Node node;
      node.costs.assign(values_.back().layouts.size(), 0);
      problem_.nodes.push_back(std::move(node));
    }
  }
}

/// The next value of a state must arrive in the state's layout (`apply-layouts`).
void ShardingProblem::add_states() {
  std::map<std::pair<int, int>, int64_t> times;
  std::map<std::pair<int, int>, TensorType> types;
  for (const State& state : module_.states)
    for (const Graph::Output& output : graph_.outputs())
      if (output.name == state.output) {
        const std::pair nodes(node_of(output.value), node_of(graph_.find_value(state.input)));
        ++times[nodes];
        types[nodes] = graph_.type(output.value);
      }
  for (const auto& [nodes, count] : times) {
    PartitionProblem::Edge edge{nodes.first, nodes.second, {}};
    TensorType type = types[nodes];
    for (const Layout& from : layouts_of(nodes.first)) {
      type.layout = from;
      for (const Layout& to : layouts_of(nodes.second)) edge.costs.push_back(costs_.resharding(type, to) * count);
    }
    if (nodes.first != nodes.second) problem_.edges.push_back(std::move(edge));
  }
}

int ShardingProblem::node_of(ValueId value) const {
  return value_nodes_[static_cast<size_t>(classes_.of(graph_.producer(value)))][graph_.value(value).result];
}

// Members of a class may read values of several classes, as the first layer reads the embedding: an edge for each.
void ShardingProblem::add_edges() {
  for (size_t c = 0; c < op_choices_.size(); ++c) {
    const std::vector<OpId>& members = classes_.all()[c].ops;
    const Op& op = graph_.op(members.front());
    const bool is_source = category(op) == Category::Source;
    for (size_t r = 0; !is_source && r < op.outputs.size(); ++r) {
      const int node = value_nodes_[c][r];
      PartitionProblem::Edge edge{static_cast<int>(c), node, {}};
      for (const OpChoice& choice : op_choices_[c])
        for (const Layout& layout : layouts_of(node)) {
          TensorType type = graph_.type(op.outputs[r]);
          type.layout = choice.results[r];
          edge.costs.push_back(costs_.resharding(type, layout) * static_cast<int64_t>(members.size()));
        }
      problem_.edges.push_back(std::move(edge));
    }
    for (size_t i = 0; i < op.inputs.size(); ++i) {
      std::map<int, int64_t> times;
      for (const OpId member : members)
        if (const ValueId v = graph_.op(member).inputs[i]) ++times[node_of(v)];
      for (const auto& [node, count] : times) {
        PartitionProblem::Edge edge{node, static_cast<int>(c), {}};
        for (const Layout& layout : layouts_of(node))
          for (const OpChoice& choice : op_choices_[c]) {
            TensorType type = graph_.type(op.inputs[i]);
            type.layout = layout;
            edge.costs.push_back(costs_.resharding_for_reader(type, choice.operands[i]) * count);
          }
        problem_.edges.push_back(std::move(edge));
      }
    }
  }
}

/// One limit, where most bytes live together if nothing is sliced.
void ShardingProblem::add_memory(int64_t limit) {
  for (const ValueId v : value_peak(module_, graph_).values) {
    const int node = node_of(v);
    PartitionProblem::Node& limited = problem_.nodes[static_cast<size_t>(node)];
    limited.usage.resize(limited.costs.size(), 0);
    limited.first = 0, limited.last = 1;
    for (size_t i = 0; i < limited.usage.size(); ++i) {
      TensorType type = graph_.type(v);
      type.layout = layouts_of(node)[i];
      limited.usage[i] += costs_.bytes(type);
    }
  }
  problem_.limit = limit;
}

/// Chooses a unit in which the cost of replicated layouts stays far below the solver's forbidden cost.
void ShardingProblem::choose_unit() {
  constexpr int64_t kMostUnits = kForbiddenCost / 100;
  int64_t alike = 0;
  for (const PartitionProblem::Node& node : problem_.nodes) alike += node.costs.front();
  while (alike / unit_ > kMostUnits) unit_ *= 10;
  if (unit_ == 1) return;
  const auto convert = [this](std::vector<int64_t>& costs) {
    for (int64_t& cost : costs) cost = cost / unit_ + (cost % unit_ > 0);
  };
  for (PartitionProblem::Node& node : problem_.nodes) convert(node.costs);
  for (PartitionProblem::Edge& edge : problem_.edges) convert(edge.costs);
}

std::span<const Layout> ShardingProblem::layouts(int node, int choice) const {
  const auto n = static_cast<size_t>(node), c = static_cast<size_t>(choice);
  if (n < op_choices_.size()) return op_choices_[n][c].operands;
  return {&layouts_of(node)[c], 1};
}

ChosenLayouts ShardingProblem::chosen(const std::vector<int>& choices) const {
  ChosenLayouts chosen;
  chosen.values.resize(graph_.value_capacity());
  chosen.ops.resize(graph_.op_capacity());
  for (const OpId id : graph_.order()) {
    const auto own = static_cast<size_t>(classes_.of(id));
    chosen.ops[id.index] = op_choices_[own][static_cast<size_t>(choices[own])];
    for (const ValueId v : graph_.op(id).outputs) {
      const auto node = static_cast<size_t>(node_of(v));
      chosen.values[v.index] = values_[node - op_choices_.size()].layouts[static_cast<size_t>(choices[node])];
    }
  }
  return chosen;
}

SearchSize ShardingProblem::size(const PartitionSolution& solution) const {
  SearchSize size;
  size.classes = static_cast<int64_t>(classes_.all().size());
  for (size_t c = 0; c < op_choices_.size(); ++c) {
    const auto ops = static_cast<int64_t>(classes_.all()[c].ops.size());
    size.ops += ops;
    size.ways[static_cast<int>(op_choices_[c].size())] += ops;
    size.ways_left[solution.left[c]] += ops;
  }
  return size;
}

MemoryNeed ShardingProblem::least_memory() const {
  MemoryNeed need;
  for (size_t v = 0; v < values_.size(); ++v) {
    const PartitionProblem::Node& node = problem_.nodes[op_choices_.size() + v];
    if (node.usage.empty()) continue;
    const std::string& name = graph_.value(values_[v].value).name;
    const auto& members = classes_.class_of(graph_.producer(values_[v].value)).ops;
    const auto readings = layer_readings(name);
    const int64_t bytes = *std::ranges::min_element(node.usage);
    need.parts.push_back({members.size() > 1 && !readings.empty() ? readings.front().first : name, bytes});
    need.bytes += bytes;
  }
  std::ranges::stable_sort(need.parts, std::greater(), &MemoryNeed::Part::bytes);
  return need;
}

}  // namespace weftc
