// Binds `shard` entries to values by name, and works out which blocks an entry means for a value that arrives
// in some layout:
//
//   {tp: {dim: 1, parts: 3}} on f32[64, 768 * 3], tp of size 4   ->   S(1, 192): each third is sliced by itself
#include "passes/layout/layout_requests.h"

#include <algorithm>

#include "ir/base/contains.h"

namespace weftc {

namespace {

using Kind = AxisState::Kind;

/// Notes the requests for a value, and for the nodes that the value comes from. False if something else is already.
bool bind_result(const Graph& graph, ValueId value, const LayoutRequest& request, LayoutRequests& requests) {
  for (OriginId origin : graph.producer_op(value).origins)
    requests.nodes.emplace(origin, std::make_pair(graph.type(value).dims(), request));
  return requests.results.emplace(value, request).second;
}

void bind(const Graph& graph, const ShardEntry& entry, ValueId value, LayoutRequests& requests, Diags& diags) {
  const LayoutRequest request{&entry.axes, graph.value(value).name};
  const bool is_first =
      entry.use ? requests.uses.emplace(value, request).second : bind_result(graph, value, request, requests);
  if (!is_first)
    diags.error("shard-twice", entry.target.loc, "the layout of '{}' is asked for twice", graph.value(value).name);
}

/// A recomputed value gets the layout of the original, unless the schedule says otherwise.
void bind_again(const Module& module, const Graph& graph, LayoutRequests& requests) {
  for (const auto& [value, request] : std::map(requests.uses))
    if (const ValueId again = find_again(module, graph, value)) requests.uses.emplace(again, request);
  for (const auto& [value, request] : std::map(requests.results))
    if (const ValueId again = find_again(module, graph, value)) bind_result(graph, again, request, requests);
}

int find_axis(const Mesh& mesh, const std::string& name) {
  for (size_t a = 0; a < mesh.size(); ++a)
    if (mesh[a].name == name) return static_cast<int>(a);
  return -1;
}

/// If a place has the axes that an entry names, its copy of an input or a constant gets the entry's layout too.
void bind_copies(const Module& module, const Graph& graph, LayoutRequests& requests) {
  if (module.places.size() == 1) return;
  const auto bind_all = [&](std::map<ValueId, LayoutRequest>& of) {
    for (const auto& [value, request] : std::map(of))
      for (const ValueId copy : copies_of(graph, value)) {
        const Mesh mesh = module.mesh(graph, graph.producer_op(copy).place);
        const bool has_axes = std::ranges::all_of(*request.axes, [&](const AxisRequest& axis) {
          return std::ranges::all_of(axis.axes, [&](const std::string& name) { return find_axis(mesh, name) >= 0; });
        });
        if (has_axes) of.emplace(copy, request);
      }
  };
  bind_all(requests.results);
  bind_all(requests.uses);
}

/// One axis to slice, as read from an entry.
struct AxisSlice {
  int axis;
  int dim;
  int64_t parts;
  const Loc* loc;
};

/// The slicing axes of an entry, outer first: products as listed, entries in mesh order. False after reporting.
bool read_request(const LayoutRequest& request, const TensorType& arriving, const Mesh& mesh, Layout& layout,
                  std::vector<AxisSlice>& wanted, Diags& diags) {
  std::vector<std::pair<int, std::vector<AxisSlice>>> entries;
  for (const AxisRequest& r : *request.axes) {
    std::vector<AxisSlice> entry;
    int64_t parts = r.parts;
    const int dim = r.dim < 0 ? r.dim + arriving.ndim() : r.dim;
    for (const std::string& name : r.axes) {
      const int axis = find_axis(mesh, name);
      if (axis < 0) {
        std::vector<std::string> names;
        for (const MeshAxis& a : mesh) names.push_back(a.name);
        diags.error("axis-not-in-place", r.loc, "unknown mesh axis '{}' for '{}', whose place has axes '{}'", name,
                    request.value, join(names, "', '"));
        return false;
      }
      if (mesh[axis].size == 1) continue;
      layout.set(axis, {});
      if (!r.replicated) entry.push_back({axis, dim, parts, &r.loc});
    }
    if (!r.replicated && (dim < 0 || dim >= arriving.ndim())) {
      diags.error("shard-dim", r.loc, "'{}' has {} dimensions, there is no dimension {} to slice", request.value,
                  arriving.ndim(), r.dim);
      return false;
    }
    if (!entry.empty()) entries.emplace_back(entry.front().axis, std::move(entry));
  }
  std::stable_sort(entries.begin(), entries.end(), [](const auto& x, const auto& y) { return x.first < y.first; });
  for (auto& [axis, entry] : entries) wanted.insert(wanted.end(), entry.begin(), entry.end());
  return true;
}

/// Cuts the blocks of a dimension once more; `inside` holds each dimension's current block. Unequal slices are legal
/// only for the sole slice of a dimension (L8), and slices of a run-time length are unequal.
bool slice_one(const LayoutRequest& request, const TensorType& type, const Mesh& mesh, const AxisSlice& w,
               std::map<int, int64_t>& inside, Layout& layout, Diags& diags) {
  const int64_t extent = type.shape[w.dim].bound;
  if (type.shape[w.dim].is_run_time() && (w.parts != 1 || !digits_of(layout, w.dim, mesh).empty())) {
    diags.error("shard-run-time-dim", *w.loc,
                "dimension {} of '{}' has a run-time length: one axis alone can slice it, in one part", w.dim,
                request.value);
    return false;
  }
  if (!inside.contains(w.dim)) {
    int64_t block = extent;
    for (const Digit& d : digits_of(layout, w.dim, mesh)) block = std::min(block, d.block);
    inside[w.dim] = block;
  }
  int64_t& block = inside[w.dim];
  const int64_t pieces = mesh[w.axis].size * w.parts;
  const bool alone = block == extent && w.parts == 1;
  if (block % pieces == 0)
    block /= pieces;
  else if (alone)
    block = (extent + pieces - 1) / pieces;
  else {
    diags.error("shard-indivisible", *w.loc,
                "blocks of {} of dimension {} of '{}' cannot be cut into {} slices (axis '{}' has {} ranks); "
                "a finer mesh, for example {tp0: 2, tp1: 2} with the product [tp0, tp1], may fit",
                block, w.dim, request.value, pieces, mesh[w.axis].name, mesh[w.axis].size);
    return false;
  }
  layout.set(w.axis, AxisState::sliced(w.dim, block));
  return true;
}

/// weight_of(NODE) must mean one value: a node without a weight, and one with several, are reported.
void check_weights(const Graph& graph, const SelectableNames& names, const Selector& target, const Bindings& bindings,
                   Diags& diags) {
  std::vector<std::string> nodes = names.matches(target, bindings);
  const bool is_set = target.text.find('*') != std::string::npos;
  for (const std::string& node : nodes) {
    const std::vector<ValueId> weights = names.weights(node);
    std::vector<std::string> found;
    for (const ValueId v : weights) found.push_back(printable(graph.value(v).name));
    if (found.size() > 1)
      diags.error("weight-ambiguous", target.loc, "node '{}' reads {} weights, '{}': name one of them", printable(node),
                  found.size(), join(found, "', '"));
    if (found.empty() && !is_set)
      diags.error("weight-none", target.loc, "'{}' reads no constant: it has no weight", printable(node));
  }
}

/// The values that a selector means, each as often as bindings mean it. Nothing after reporting.
std::vector<ValueId> selected(const Graph& graph, const SelectableNames& names, const Selector& target, Diags& diags) {
  std::vector<ValueId> values;
  for (const Bindings& bindings : names.bindings({target})) {
    const int errors = diags.errors();
    if (target.kind == Selector::Kind::Weight) check_weights(graph, names, target, bindings, diags);
    if (diags.errors() != errors) continue;
    for (const ValueId value : names.select_values(target, bindings)) values.push_back(value);
  }
  return values;
}

/// Binds the entries in one graph and its regions; marks matching entries in `matched`.
class Binder {
 public:
  Binder(const Module& module, const Schedule& schedule, std::vector<bool>& matched, Diags& diags)
      : module_(module), schedule_(schedule), matched_(matched), diags_(diags) {}

  LayoutRequests top(KnownSelections& known) {
    return bind_graph(module_.graph, [&](const Selector& target) {
      const auto [at, is_new] = known.values.emplace(shown_selector(target), std::vector<ValueId>{});
      if (is_new) at->second = selected(module_.graph, known.names, target, diags_);
      return at->second;
    });
  }

 private:
  template <class Select>
  LayoutRequests bind_graph(const Graph& graph, const Select& select) {
    LayoutRequests requests;
    for (size_t e = 0; e < schedule_.shard.size(); ++e) {
      const int errors = diags_.errors();
      const std::vector<ValueId> values = select(schedule_.shard[e].target);
      if (diags_.errors() != errors || !values.empty()) matched_[e] = true;
      for (const ValueId value : values) bind(graph, schedule_.shard[e], value, requests, diags_);
    }
    bind_again(module_, graph, requests);
    bind_copies(module_, graph, requests);
    for (OpId id : graph.order())
      for (const Graph& region : graph.op(id).regions) requests.regions[id].push_back(bind_region(region));
    return requests;
  }

  LayoutRequests bind_region(const Graph& graph) {
    const SelectableNames names(module_, graph, schedule_.aliases);
    return bind_graph(graph, [&](const Selector& target) { return selected(graph, names, target, diags_); });
  }

  const Module& module_;
  const Schedule& schedule_;
  std::vector<bool>& matched_;
  Diags& diags_;
};

}  // namespace

std::vector<ValueId> copies_of(const Graph& graph, ValueId value) {
  const Op& op = graph.producer_op(value);
  std::vector<ValueId> copies;
  if (op.kind != OpKind::Input && op.kind != OpKind::Constant) return copies;
  for (OpId id : graph.order()) {
    const Op& other = graph.op(id);
    if (other.kind != op.kind || other.outputs[0] == value) continue;
    const bool is_copy = op.kind == OpKind::Input
                             ? op.port && other.port == op.port
                             : other.attrs == op.attrs && other.name.starts_with(graph.value(value).name + ".to.");
    if (is_copy) copies.push_back(other.outputs[0]);
  }
  return copies;
}

LayoutRequests bind_requests(const Module& module, const Schedule& schedule, Diags& diags, KnownSelections* known) {
  if (!known) {
    const SelectableNames names(module, module.graph, schedule.aliases);
    KnownSelections own{names};
    return bind_requests(module, schedule, diags, &own);
  }
  std::vector<bool> matched(schedule.shard.size());
  LayoutRequests requests = Binder(module, schedule, matched, diags).top(*known);
  for (size_t e = 0; e < schedule.shard.size(); ++e)
    if (!matched[e]) known->names.report_unmatched(schedule.shard[e].target, diags);
  return requests;
}

std::optional<Layout> requested_layout(const LayoutRequest& request, const TensorType& arriving, const Mesh& mesh,
                                       Diags& diags) {
  Layout layout = arriving.layout;
  for (int a = 0; a < arriving.layout.size(); ++a)
    if (layout[a].is(Kind::P)) layout.set(a, {});
  std::vector<AxisSlice> wanted;
  if (!read_request(request, arriving, mesh, layout, wanted, diags)) return {};
  std::map<int, int64_t> inside;
  for (const AxisSlice& w : wanted)
    if (!slice_one(request, arriving, mesh, w, inside, layout, diags)) return {};
  TensorType type = arriving;
  type.layout = layout;
  if (const std::string wrong = check_layout(type, mesh); !wrong.empty()) {
    diags.error("shard-illegal", request.axes->front().loc, "'{}' cannot have the layout {}: {}", request.value,
                layout_text(layout, mesh), wrong);
    return {};
  }
  return layout;
}

}  // namespace weftc
