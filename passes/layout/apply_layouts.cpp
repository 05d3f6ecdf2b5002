// Gives every value its layout in one forward pass and makes each reshard an explicit collective (L1-L10).
//
//   %h = MatMul(%x, %w) : f32[2, 64]            %w : f32[16, 64] [tp: S(1,32)]
//   %y = MatMul(%h, %v) : f32[2, 16]     ->     %h = MatMul(%x, %w) : f32[2, 64] [tp: S(1,32)]
//                                               %y = MatMul(%h, %v) : f32[2, 16] [tp: P(sum)]
//                                               %y.sum = AllReduce(%y) {axes = [0]} : f32[2, 16]
//
// Deterministic and without search: layouts that the schedule does not ask for follow from the operands' layouts.
#include <algorithm>
#include <set>

#include "ir/base/contains.h"
#include "ir/op_def.h"
#include "passes/layout/layout_requests.h"
#include "passes/layout/layout_rules.h"
#include "passes/layout/layout_trial.h"
#include "passes/layout/reshard.h"
#include "passes/layout/sliced_products.h"
#include "passes/layout/split_rows.h"
#include "passes/layout/stored_slices.h"
#include "passes/passes.h"

namespace weftc {

namespace {

using Kind = AxisState::Kind;

/// An input as a place has it: itself, or a copy that the place loads; invalid where the place does not load it.
ValueId copy_at(const Graph& graph, PlaceId place, ValueId input) {
  if (!input || graph.producer_op(input).place == place) return input;
  for (const ValueId copy : copies_of(graph, input))
    if (graph.producer_op(copy).place == place) return copy;
  return {};
}

/// Lays out one graph op by op; each region gets a GraphLayout of its own. `latest_` maps a value to its replacement
/// for readers.
class GraphLayout {
 public:
  GraphLayout(Module& module, Graph& graph, const LayoutRequests& requests, Diags& diags)
      : module_(module),
        graph_(graph),
        requests_(requests),
        products_(requested_products(graph, requests)),
        diags_(diags),
        resharder_(module, graph) {}

  void run() {
    for (OpId id : graph_.order()) lay(id);
    for (size_t i = 0; i < graph_.outputs().size(); ++i) graph_.set_output(i, latest(graph_.outputs()[i].value));
  }
  /// By value that there was before: the layout in which readers find it.
  std::vector<Layout> found(size_t values) const {
    std::vector<Layout> layouts;
    for (uint32_t v = 0; v < values; ++v) layouts.push_back(graph_.type(latest(ValueId(v))).layout);
    return layouts;
  }

 private:
  void lay(OpId id);
  void lay_source(OpId id);
  void lay_settled(OpId id);
  std::vector<bool> yielding_operands(OpId id);
  std::optional<Layout> wanted_product(const Op& op, const Layout& layout) const;
  void lay_transfer(OpId id);
  void lay_model_collective(OpId id);
  void lay_if(OpId id);
  void lay_loop(OpId id);
  std::vector<Layout> lay_region(OpId owner, size_t number, const std::vector<Layout>& parameters, Diags& diags);
  void slice_carried(OpId id, std::vector<Layout>& parameters);
  void finish_result(ValueId value, Layout layout);
  Layout like_primal(ValueId value, const Layout& layout) const;
  bool may_be_laid_out(const Layout& layout, const LayoutRequest& request, const Op& op);
  bool require_replicated(OpId id, size_t input, const char* what);

  Mesh mesh(const Op& op) const { return module_.mesh(graph_, op.place); }
  bool is_top() const { return &graph_ == &module_.graph; }
  /// The value that readers of `v` see: after its reduction and requests.
  ValueId latest(ValueId v) const {
    const auto at = latest_.find(v);
    return at == latest_.end() ? v : at->second;
  }
  /// The value that a reader of `v` gets: after its reduction and requests, resharded if `v.use` is asked for.
  ValueId fetch(ValueId v, OpId reader);
  /// Gives a value its layout; shape and dtype stay.
  void set_layout(ValueId v, Layout layout) {
    TensorType type = graph_.type(v);
    type.layout = std::move(layout);
    graph_.retype(v, std::move(type));
  }

  Module& module_;
  Graph& graph_;
  const LayoutRequests& requests_;
  const std::map<ValueId, LayoutRequest> products_;
  Diags& diags_;
  Resharder resharder_;
  std::map<ValueId, ValueId> latest_;
  std::set<ValueId> derivatives_;  // and those of backward ops that read them
};

/// True if `wanted` is compatible with a layout on an axis: where another axis slices the same dimension, it does so in
/// both.
static bool fits_beside(const Layout& wanted, int axis, const Layout& layout) {
  for (int other = 0; other < std::max(layout.size(), wanted.size()); ++other) {
    const bool slices_too = layout[other].is(Kind::S) || wanted[other].is(Kind::S);
    const bool is_alike = layout[other] == wanted[other];
    if (other != axis && wanted[axis].is(Kind::S) && slices_too && !is_alike &&
        (layout[other].dim == wanted[axis].dim || wanted[other].dim == wanted[axis].dim))
      return false;
  }
  return true;
}

void GraphLayout::lay(OpId id) {
  const Op& op = graph_.op(id);
  switch (category(op)) {
    case Category::Source:
      return lay_source(id);
    case Category::Collective:
      return op.kind == OpKind::Transfer ? lay_transfer(id) : lay_model_collective(id);
    case Category::Region:
      return op.kind == OpKind::If ? lay_if(id) : lay_loop(id);
    default:
      return lay_settled(id);
  }
}

ValueId GraphLayout::fetch(ValueId v, OpId reader) {
  if (!v) return v;
  const ValueId value = latest(v);
  const auto use = requests_.uses.find(v);
  if (use == requests_.uses.end()) return value;
  if (!may_be_laid_out(graph_.type(value).layout, use->second, graph_.producer_op(value))) return value;
  const std::optional<Layout> wanted =
      requested_layout(use->second, graph_.type(value), mesh(graph_.producer_op(value)), diags_);
  return wanted ? resharder_.reshard(value, *wanted, reader) : value;
}

// A derivative is reduced to the slices of the value that it differentiates by: an all-reduce and a slice before the
// next op would move twice as much. The derivative by a parameter has the layout of the optimizer's state for it.
Layout GraphLayout::like_primal(ValueId value, const Layout& layout) const {
  const auto primal = is_top() ? module_.primals.find(graph_.value(value).name) : module_.primals.end();
  const ValueId of = primal == module_.primals.end() ? ValueId{} : graph_.find_value(primal->second);
  if (!of || !(graph_.producer_op(of).place == graph_.producer_op(value).place)) return layout;
  const Layout& wanted = graph_.type(latest(of)).layout;
  if (graph_.type(of).dims() != graph_.type(value).dims() || wanted.has(Kind::V) || layout.has(Kind::V)) return layout;
  if (graph_.producer_op(of).kind == OpKind::Input) return wanted;
  Layout target = layout;
  for (int a = 0; a < layout.size(); ++a)
    if (layout[a].is(Kind::P) && fits_beside(wanted, a, layout)) target.set(a, wanted[a]);
  return target;
}

// Settles the layout in which readers get a result. A partial sum is reduced here, at its producer, and a request is
// met here. So reduction and request are one collective (a reduce-scatter instead of an all-reduce and a slice). A
// request for a node also holds for a partial sum inside the ops that the node was decomposed to.
void GraphLayout::finish_result(ValueId value, Layout layout) {
  set_layout(value, layout);
  const Op& op = graph_.producer_op(value);
  const LayoutRequest* request = nullptr;
  if (const auto own = requests_.results.find(value); own != requests_.results.end()) request = &own->second;
  for (OriginId origin : op.origins) {
    const auto node = requests_.nodes.find(origin);
    const bool inside = node != requests_.nodes.end() && node->second.first == graph_.type(value).dims();
    if (!request && inside && layout.has(Kind::P)) request = &node->second.second;
  }
  Layout target = like_primal(value, layout);
  for (int a = 0; a < layout.size(); ++a)
    if (target[a].is(Kind::P)) target.set(a, {});
  if (request && !may_be_laid_out(layout, *request, op)) return;
  if (request) {
    const std::optional<Layout> wanted = requested_layout(*request, graph_.type(value), mesh(op), diags_);
    if (wanted) target = *wanted;
  }
  if (!(target == layout)) latest_[value] = resharder_.reshard(value, target);
}

// True unless the value varies (L10): no reshard can join the ranks' separate values to one tensor; only the model can.
bool GraphLayout::may_be_laid_out(const Layout& layout, const LayoutRequest& request, const Op& op) {
  if (!layout.has(Kind::V)) return true;
  diags_.error("shard-of-varying", request.axes->front().loc,
               "'{}' is {}: each rank has its own, and only a collective of the model joins them", request.value,
               layout_text(layout, mesh(op)));
  return false;
}

/// The layout of the type for another shape: slices of dims that both have. A mean over rows or columns has a dim of 1
/// there, or fewer dims.
static Layout layout_as(const TensorType& type, const Shape& shape) {
  Layout layout;
  for (int axis = 0; axis < type.layout.size(); ++axis) {
    const AxisState state = type.layout[axis];
    const auto dim = static_cast<size_t>(state.dim);
    const bool fits = shape.size() == type.shape.size() && shape[dim] == type.shape[dim];
    if (!state.is(Kind::S) || fits) layout.set(axis, state);
  }
  return layout;
}

/// An input or constant has the layout that is asked for, else it is replicated; inputs of a per-rank model
/// vary.
void GraphLayout::lay_source(OpId id) {
  const Op& op = graph_.op(id);
  const ValueId value = op.outputs[0];
  Layout layout = graph_.type(value).layout;  // a region's parameters have theirs already
  if (is_top() && op.kind == OpKind::Input && module_.per_rank)
    for (size_t a = 0; a < mesh(op).size(); ++a)
      if (mesh(op)[a].size > 1) layout.set(static_cast<int>(a), AxisState::varying());
  const bool parameter = op.kind == OpKind::Input && !is_top();  // laid out where the operand is
  for (const State& state : module_.states)
    if (is_top() && !state.of.empty() && state.input == graph_.value(value).name)
      if (const ValueId of = copy_at(graph_, op.place, graph_.find_value(state.of)); of && of.index < value.index)
        layout = layout_as(graph_.type(of), graph_.type(value).shape);
  if (!parameter && requests_.results.contains(value)) {
    const LayoutRequest& request = requests_.results.at(value);
    if (const auto wanted = requested_layout(request, graph_.type(value), mesh(op), diags_)) layout = *wanted;
  }
  set_layout(value, layout);
}

/// A product that goes back through product N serves on each axis the loop that N served: the operands that N had
/// decide, and not how the derivative by N lies. In a product that N sums up over slices, that derivative is gathered
/// then, and the derivative of a weight is a slice as the weight is.
std::vector<bool> GraphLayout::yielding_operands(OpId id) {
  const Op& op = graph_.op(id);
  const bool is_backward = module_.is_backward(op);
  std::vector<bool> are_derivatives;
  for (const ValueId v : op.inputs) are_derivatives.push_back(v && derivatives_.contains(v));
  const bool reads_one = contains(are_derivatives, true);
  for (const ValueId v : op.outputs)
    if ((is_backward && reads_one) || module_.primals.contains(graph_.value(v).name)) derivatives_.insert(v);
  return is_backward && reads_one && category(op) == Category::Contraction ? are_derivatives : std::vector<bool>{};
}

/// The layout that readers want of a product's result that would have `layout`: the requested one, or the layout of the
/// value that it is the derivative by.
std::optional<Layout> GraphLayout::wanted_product(const Op& op, const Layout& layout) const {
  if (layout.has(Kind::V)) return {};
  if (const auto product = products_.find(op.outputs[0]); product != products_.end()) {
    TensorType type = graph_.type(op.outputs[0]);
    type.layout = layout;
    Diags unsaid;  // an invalid request is reported where the result meets it
    return requested_layout(product->second, type, mesh(op), unsaid);
  }
  return category(op) == Category::Contraction ? std::optional(like_primal(op.outputs[0], layout)) : std::nullopt;
}

/// An op with a factor rule, or a view: the rules settle its axes, and operands are resharded accordingly.
void GraphLayout::lay_settled(OpId id) {
  std::vector<Layout> arriving;
  std::vector<ValueId> operands;
  const std::vector<bool> yielding = yielding_operands(id);
  for (ValueId v : graph_.op(id).inputs) {
    operands.push_back(fetch(v, id));
    arriving.push_back(v ? graph_.type(operands.back()).layout : Layout{});
  }
  for (size_t i = 0; i < operands.size(); ++i)
    if (!(operands[i] == graph_.op(id).inputs[i])) graph_.set_input(id, i, operands[i]);
  const Op& op = graph_.op(id);
  const OpView view(module_, graph_, op);
  OpLayouts settled = settle(view, mesh(op), arriving, yielding);
  if (!settled.refusal.empty()) {
    diags_.error("layout-varying", module_.loc(op), "{}", settled.refusal);
    return;
  }
  if (const std::optional<Layout> wanted = wanted_product(op, settled.results[0]))
    settled = slice_operands(view, mesh(op), arriving, std::move(settled), *wanted);
  warn_of_gathered_parts(view, mesh(op), arriving, settled, module_.loc(op), diags_);
  module_.remarks.insert(module_.remarks.end(), settled.remarks.begin(), settled.remarks.end());
  for (size_t i = 0; i < operands.size(); ++i)
    if (operands[i] && !(arriving[i] == settled.operands[i]))
      graph_.set_input(id, i, resharder_.reshard(operands[i], settled.operands[i], id));
  const std::vector<ValueId> results = graph_.op(id).outputs;
  for (size_t r = 0; r < results.size(); ++r) finish_result(results[r], settled.results[r]);
}

// Axes of the same name and size on both places keep their slices; any other slice is joined before it is sent.
void GraphLayout::lay_transfer(OpId id) {
  const ValueId from = fetch(graph_.op(id).inputs[0], id);
  graph_.set_input(id, 0, from);
  const Op& op = graph_.op(id);
  const Mesh source = mesh(graph_.producer_op(from)), target = mesh(op);
  Layout layout;
  for (size_t a = 0; a < target.size(); ++a)
    for (size_t s = 0; s < source.size(); ++s)
      if (source[s] == target[a] && graph_.type(from).layout[static_cast<int>(s)].is(Kind::S))
        layout.set(static_cast<int>(a), graph_.type(from).layout[static_cast<int>(s)]);
  finish_result(op.outputs[0], layout);
}

// L10: it takes copies, equal or not, and makes equal ones, or others that vary, on the axes that bind-collectives
// found.
void GraphLayout::lay_model_collective(OpId id) {
  const ValueId from = fetch(graph_.op(id).inputs[0], id);
  graph_.set_input(id, 0, from);
  const Op& op = graph_.op(id);
  Layout layout = graph_.type(from).layout;
  if (layout.has(Kind::S) || layout.has(Kind::P)) {
    diags_.error("collective-of-slices", module_.loc(op),
                 "'{}' is {}: a collective of the model takes what each rank has by itself; leave it out of `shard`",
                 graph_.value(from).name, layout_text(layout, mesh(op)));
    return;
  }
  const bool alike = op.kind == OpKind::AllReduce || op.kind == OpKind::AllGather || op.kind == OpKind::Broadcast;
  for (const int64_t axis : op.ints("axes"))
    layout.set(static_cast<int>(axis), alike ? AxisState{} : AxisState::varying());
  finish_result(op.outputs[0], layout);
}

/// Lays out a region whose parameters have the operands' layouts; returns the layouts of its outputs.
std::vector<Layout> GraphLayout::lay_region(OpId owner, size_t number, const std::vector<Layout>& parameters,
                                            Diags& diags) {
  Graph& region = graph_.edit(owner).regions[number];
  for (size_t i = 0; i < region.inputs().size(); ++i) {
    TensorType type = region.type(region.inputs()[i]);
    type.layout = parameters[i];
    region.retype(region.inputs()[i], type);
  }
  GraphLayout(module_, region, requests_.regions.at(owner)[number], diags).run();
  std::vector<Layout> results;
  for (const Graph::Output& out : region.outputs()) results.push_back(region.type(out.value).layout);
  return results;
}

/// Conditions and trip counts must be equal on all ranks: a collective in a branch that one rank does not take
/// would wait for ever.
bool GraphLayout::require_replicated(OpId id, size_t input, const char* what) {
  const Op& op = graph_.op(id);
  if (input >= op.inputs.size() || !op.inputs[input]) return true;
  const ValueId v = fetch(op.inputs[input], id);
  if (graph_.type(v).layout.has(Kind::V)) {
    diags_.error("predicate-varies", module_.loc(op),
                 "the {} '{}' may differ between ranks; a collective must make it the same on all of them", what,
                 graph_.value(v).name);
    return false;
  }
  graph_.set_input(id, input, resharder_.reshard(v, {}, id));
  return true;
}

/// The layout that both branches can have: where they differ, R (V if one varies).
Layout join_layouts(const Layout& x, const Layout& y) {
  Layout joined;
  for (int a = 0; a < std::max(x.size(), y.size()); ++a) {
    if (x[a] == y[a])
      joined.set(a, x[a]);
    else if (x[a].is(Kind::V) || y[a].is(Kind::V))
      joined.set(a, AxisState::varying());
  }
  return joined;
}

/// R where a value that varies is expected needs no reshard: equal copies are a case of unrelated ones.
Layout reachable(const Layout& from, const Layout& to) {
  Layout layout = to;
  for (int a = 0; a < to.size(); ++a)
    if (to[a].is(Kind::V) && from[a].is(Kind::R)) layout.set(a, {});
  return layout;
}

/// Reshards the outputs of a region, from number `first` on, to the layouts `to`.
void reshard_outputs(Module& module, Graph& region, size_t first, const std::vector<Layout>& to) {
  Resharder resharder(module, region);
  for (size_t i = 0; i < to.size(); ++i) {
    const ValueId v = region.outputs()[first + i].value;
    region.set_output(first + i, resharder.reshard(v, reachable(region.type(v).layout, to[i])));
  }
}

/// Both branches must give one layout for each result; where theirs differ, the result is gathered.
void GraphLayout::lay_if(OpId id) {
  if (!require_replicated(id, 0, "condition")) return;
  std::vector<Layout> captures;
  for (size_t i = 1; i < graph_.op(id).inputs.size(); ++i) {
    graph_.set_input(id, i, fetch(graph_.op(id).inputs[i], id));
    captures.push_back(graph_.type(graph_.op(id).inputs[i]).layout);
  }
  std::vector<Layout> results = lay_region(id, 0, captures, diags_);
  const std::vector<Layout> other = lay_region(id, 1, captures, diags_);
  for (size_t i = 0; i < results.size(); ++i) results[i] = join_layouts(results[i], other[i]);
  for (Graph& region : graph_.edit(id).regions) reshard_outputs(module_, region, 0, results);
  const std::vector<ValueId> outputs = graph_.op(id).outputs;
  for (size_t i = 0; i < outputs.size(); ++i) finish_result(outputs[i], results[i]);
}

/// Slices a carried value that enters replicated, if the body slices it and keeps the slices: a state that starts from
/// zeros follows the slices of a batch that the body reads. Lays out the body as a trial until nothing changes. An axis
/// on which the slices are lost again stays replicated.
void GraphLayout::slice_carried(OpId id, std::vector<Layout>& parameters) {
  const size_t carried = static_cast<size_t>(graph_.op(id).integer_or("carried", 0));
  const Graph body = graph_.op(id).regions[0];
  std::set<std::pair<size_t, int>> sliced, kept_whole;
  for (bool changed = true; changed;) {
    Diags trial;
    const std::vector<Layout> results = lay_region(id, 0, parameters, trial);
    graph_.edit(id).regions[0] = body;
    changed = false;
    for (size_t i = 0; i < carried && trial.ok(); ++i) {
      Layout& enters = parameters[2 + i];
      for (int a = 0; a < std::max(results[1 + i].size(), enters.size()); ++a) {
        const AxisState leaves = results[1 + i][a];
        const bool is_lost = sliced.contains({i, a}) && !(leaves == enters[a]);
        const bool is_new = enters[a].is(Kind::R) && leaves.is(Kind::S) && !kept_whole.contains({i, a}) &&
                            fits_beside(results[1 + i], a, enters);
        if (!is_lost && !is_new) continue;
        enters.set(a, is_new ? leaves : AxisState{});
        (is_new ? sliced : kept_whole).insert({i, a});
        if (is_lost) sliced.erase({i, a});
        changed = true;
      }
    }
  }
  for (size_t i = 2; i < 2 + carried; ++i)
    graph_.set_input(id, i, resharder_.reshard(graph_.op(id).inputs[i], parameters[i], id));
}

// A carried value keeps the layout with which it enters, so that every iteration begins alike; a scan output's
// slices move by the new leading dim.
void GraphLayout::lay_loop(OpId id) {
  if (!require_replicated(id, 0, "trip count") || !require_replicated(id, 1, "condition")) return;
  std::vector<Layout> parameters{{}, {}};
  for (size_t i = 2; i < graph_.op(id).inputs.size(); ++i) {
    graph_.set_input(id, i, fetch(graph_.op(id).inputs[i], id));
    Layout layout = graph_.type(graph_.op(id).inputs[i]).layout;
    if (module_.per_rank)
      for (size_t a = 0; a < mesh(graph_.op(id)).size(); ++a)
        if (mesh(graph_.op(id))[a].size > 1) layout.set(static_cast<int>(a), AxisState::varying());
    parameters.push_back(layout);
  }
  if (!module_.per_rank) slice_carried(id, parameters);
  std::vector<Layout> results = lay_region(id, 0, parameters, diags_);
  const std::vector<ValueId> outputs = graph_.op(id).outputs;
  const size_t carried = static_cast<size_t>(graph_.op(id).integer_or("carried", static_cast<int64_t>(outputs.size())));
  if (results[0].has(Kind::V)) {
    diags_.error("predicate-varies", module_.loc(graph_.op(id)), "the loop's condition may differ between ranks");
    return;
  }
  for (size_t i = 0; i < outputs.size(); ++i) results[i + 1] = i < carried ? parameters[i + 2] : results[i + 1];
  results[0] = {};
  reshard_outputs(module_, graph_.edit(id).regions[0], 0, results);
  for (size_t i = 0; i < outputs.size(); ++i) {
    Layout layout = results[i + 1];
    if (i >= carried)
      for (int a = 0; a < layout.size(); ++a)
        if (layout[a].is(Kind::S)) layout.set(a, AxisState::sliced(layout[a].dim + 1, layout[a].block));
    finish_result(outputs[i], layout);
  }
}

/// True if a request for a value, if it has one, permits `layout`: it does not mention the axes that slice.
bool leaves_free(const LayoutRequests& requests, ValueId value, const Layout& layout, const Mesh& mesh) {
  const auto request = requests.results.find(value);
  if (request == requests.results.end()) return true;
  for (const AxisRequest& entry : *request->second.axes)
    for (const std::string& axis : entry.axes)
      for (int a = 0; a < layout.size(); ++a)
        if (mesh[a].name == axis && layout[a].is(Kind::S)) return false;
  return true;
}

/// If all readers of a state slice it alike, it is stored sliced, unless the schedule gives its layout; the output that
/// feeds it has the same layout.
void store_sliced_states(Module& module, const LayoutRequests& requests) {
  Graph& graph = module.graph;
  for (const State& state : module.states) {
    const ValueId input = graph.find_value(state.input);
    const std::vector<Use> uses = graph.value(input).uses;
    std::optional<Layout> common;
    bool alike = !uses.empty();
    for (const Use& use : uses) {
      const bool slices = use.op && graph.op(use.op).kind == OpKind::ShardSlice;
      if (!slices || (common && !(*common == graph.type(graph.result(use.op)).layout)))
        alike = false;
      else
        common = graph.type(graph.result(use.op)).layout;
    }
    if (!alike || !common) continue;
    if (!leaves_free(requests, input, *common, module.mesh(graph, graph.producer_op(input).place))) continue;
    TensorType type = graph.type(input);
    type.layout = *common;
    graph.retype(input, type);
    for (const Use& use : uses) {
      graph.replace_uses(graph.result(use.op), input);
      graph.erase(use.op);
    }
  }
}

/// The output that feeds a state gets the layout in which the state is stored.
void match_state_outputs(Module& module) {
  Graph& graph = module.graph;
  Resharder resharder(module, graph);
  for (const State& state : module.states) {
    const ValueId input = graph.find_value(state.input);
    for (size_t i = 0; i < graph.outputs().size(); ++i) {
      if (graph.outputs()[i].name != state.output) continue;
      const ValueId next = graph.outputs()[i].value;
      const ValueId own = copy_at(graph, graph.producer_op(next).place, input);
      graph.set_output(i, resharder.reshard(next, graph.type(own ? own : input).layout));
    }
  }
}

/// Lays out the top graph; `found` gets the layouts in which readers find values, if it is asked for.
void lay_out(Module& module, const Env& env, KnownSelections* known, std::vector<Layout>* found) {
  const LayoutRequests requests = bind_requests(module, env.schedule, env.diags, known);
  if (!env.diags.ok()) return;
  split_rows(module, requests);
  const size_t values = module.graph.value_capacity();
  GraphLayout layout(module, module.graph, requests, env.diags);
  layout.run();
  if (!env.diags.ok()) return;
  if (found) *found = layout.found(values);
  store_sliced_sources(module, module.graph);
  store_sliced_states(module, requests);
  match_state_outputs(module);
  if (module.pipeline) give_reshards_blocks(module);
}

}  // namespace

void apply_layouts(Module& module, const Env& env) { lay_out(module, env, nullptr, nullptr); }

LayoutTrial try_layouts(Module& module, const Env& env, KnownSelections* known) {
  LayoutTrial trial{module.graph, {}};
  const std::vector<std::string> remarks = module.remarks;
  lay_out(module, env, known, &trial.found);
  std::swap(module.graph, trial.graph);
  module.remarks = remarks;
  return trial;
}

}  // namespace weftc
