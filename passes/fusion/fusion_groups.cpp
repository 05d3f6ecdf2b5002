// Groups ops into kernels, greedily and in graph order:
//   contraction + pointwise ops behind it, down to the one value that others read, + a transposition of that value
//   reductions over equal axes of one shape + pointwise ops over that shape before, between and behind them
//   pointwise ops (gathers, concatenations and copies among them) over one shape
//   any other op alone
// A merge that made a cycle through another group is refused (Quotient). Nothing is computed twice but views.
#include "passes/fusion/fusion_groups.h"

#include <algorithm>
#include <set>

#include "ir/base/check.h"
#include "passes/fusion/quotient.h"
#include "passes/fusion/trial_kernel.h"
#include "passes/strategy/library_epilogue.h"
#include "passes/strategy/strategy_rules.h"

namespace weftc {

namespace {

/// Larger kernels compile slowly and spill.
constexpr int kMostMembers = 128;

/// What ops in one loop nest share: place and stage, shape and slices. P and R differ by no loop.
struct LoopShape {
  PlaceId place;
  int stage;
  Shape shape;
  std::vector<std::pair<int, AxisState>> slices;
  bool operator==(const LoopShape&) const = default;
};

/// What reads a value from memory without being a kernel.
struct MemoryReader {
  bool needs_own = false;  // the result of a region: a buffer of its own
  bool sends_on = false;   // a Transfer or a result: memory that its stage wrote, not another Transfer
};

LoopShape loop_shape(const TensorType& type, const Op& op) {
  LoopShape loop{op.place, op.stage.value_or(0), type.shape, {}};
  for (int a = 0; a < type.layout.size(); ++a)
    if (type.layout[a].is(AxisState::Kind::S)) loop.slices.push_back({a, type.layout[a]});
  return loop;
}

/// The shape behind a reduction of `loop` over `axes`, which keeps them as extent 1 or drops them.
LoopShape reduced(LoopShape loop, const std::vector<int64_t>& axes, bool keepdims) {
  const auto is_reduced = [&](int d) { return std::find(axes.begin(), axes.end(), d) != axes.end(); };
  std::erase_if(loop.slices, [&](const auto& slice) { return is_reduced(slice.second.dim); });
  Shape shape;
  std::vector<int> moved(loop.shape.size());
  for (int d = 0; d < static_cast<int>(loop.shape.size()); ++d) {
    moved[d] = static_cast<int>(shape.size());
    if (!is_reduced(d))
      shape.push_back(loop.shape[d]);
    else if (keepdims)
      shape.push_back({1, {}});
  }
  for (auto& [axis, state] : loop.slices) state.dim = moved[state.dim];
  loop.shape = std::move(shape);
  return loop;
}

std::vector<int64_t> axes_of(const Op& op) {
  if (op.has("axes")) return op.ints("axes");
  return {op.integer("axis")};
}

/// Ops that a pointwise kernel evaluates element by element, but whose operands it must load.
bool is_loading_kind(OpKind kind) {
  switch (kind) {
    case OpKind::Gather:
    case OpKind::Concat:
    case OpKind::Pad:
    case OpKind::Tile:
      return true;
    default:
      return false;
  }
}

class FusionPlanner {
 public:
  FusionPlanner(const Module& module, const Graph& graph, bool region, const Target& target)
      : module_(module),
        graph_(graph),
        target_(target),
        region_(region),
        order_(graph.order()),
        node_of_(graph.op_capacity(), -1),
        quotient_(number_nodes()) {
    out_.group_of.assign(graph.op_capacity(), -1);
    position_.resize(graph.op_capacity());
    for (size_t i = 0; i < order_.size(); ++i) position_[order_[i].index] = static_cast<int>(i);
    add_edges();
  }

  Fusion run() {
    for (OpId id : order_)
      if (computes(id) && category(op(id)) == Category::Contraction) grow_contraction(id);
    for (OpId id : order_)
      if (computes(id) && category(op(id)) == Category::Reduction && !taken(id)) grow_reduction(id);
    for (OpId id : order_)
      if (computes(id) && is_pointwise(id) && !taken(id)) join_pointwise(id);
    for (OpId id : order_)
      if (computes(id) && !taken(id))
        start(id, category(op(id)) == Category::View ? Category::Pointwise : category(op(id)));
    finish();
    return std::move(out_);
  }

 private:
  const Op& op(OpId id) const { return graph_.op(id); }
  bool taken(OpId id) const { return out_.group_of[id.index] >= 0; }

  /// Ops with a node: everything but inputs, constants, lengths, patterns and views done while loading.
  bool has_node(OpId id) const { return node_of_[id.index] >= 0; }
  bool computes(OpId id) const {
    const Category c = category(op(id));
    return has_node(id) && c != Category::Collective && c != Category::Region && !is_alias(id);
  }
  bool is_pointwise(OpId id) const {
    const Op& o = op(id);
    return category(o) == Category::Pointwise || is_loading_kind(o.kind) || is_copy(id) ||
           o.kind == OpKind::RandomUniform || o.kind == OpKind::Iota;
  }
  /// A view that must lie in memory, because its reader is no kernel.
  bool is_copy(OpId id) const { return has_node(id) && is_load_view(op(id)) && !is_alias(id); }
  /// A reshape between ops that are no kernels: the same memory under another shape.
  bool is_alias(OpId id) const { return out_.alias[id.index]; }

  int number_nodes() {
    out_.alias.assign(graph_.op_capacity(), false);
    stored_.assign(graph_.op_capacity(), false);
    for (OpId id : order_) {
      const Op& o = op(id);
      const bool loads_only =
          category(o) == Category::Scan || (category(o) == Category::Index && o.kind != OpKind::Gather);
      if (category(o) == Category::Collective || category(o) == Category::Region || loads_only)
        for (size_t i = 0; i < o.inputs.size(); ++i)
          store(o.inputs[i], reads_weights(o, i), MemoryReader{false, o.kind == OpKind::Transfer});
    }
    for (const Graph::Output& output : graph_.outputs()) store(output.value, false, MemoryReader{region_, true});
    for (OpId id : order_)
      for (ValueId v : op(id).outputs)
        for (const Extent& e : graph_.type(v).shape)
          if (e.count) store(e.count, false);
    int count = 0;
    for (OpId id : order_) {
      const Op& o = op(id);
      const bool source = o.kind == OpKind::Input || o.kind == OpKind::Constant || o.kind == OpKind::ExtentOf;
      const bool along = is_load_view(o) || o.kind == OpKind::Iota;
      if (!source && (!along || stored_[id.index])) node_of_[id.index] = count++;
    }
    return count;
  }

  /// `value` is read from memory by something that is no kernel; constants lie in memory of their own kind, which not
  /// all of these can read.
  void store(ValueId value, bool takes_weights, MemoryReader reader = {}) {
    while (value) {
      const OpId id = graph_.producer(value);
      const Op& o = op(id);
      if (!is_load_view(o) && o.kind != OpKind::Iota) return;
      const bool known = stored_[id.index];
      stored_[id.index] = true;
      if (o.kind != OpKind::Reshape) return;
      const OpKind base = graph_.producer_op(o.inputs[0]).kind;
      if (known && !out_.alias[id.index]) return;
      const bool shared = reader.needs_own && graph_.value(o.inputs[0]).uses.size() > 1;
      const bool lent = (region_ && (base == OpKind::Input || shared)) || (reader.sends_on && base == OpKind::Transfer);
      out_.alias[id.index] = takes_weights || (base != OpKind::Constant && !lent);
      if (!out_.alias[id.index]) return;
      value = o.inputs[0];
    }
  }

  /// The value in memory behind views done while loading; none for literals, patterns and constants.
  ValueId loaded(ValueId value) const {
    while (value && !has_node(graph_.producer(value)) && is_load_view(graph_.producer_op(value)))
      value = graph_.producer_op(value).inputs[0];
    return value;
  }

  void add_edge(ValueId value, int to) {
    value = value ? loaded(value) : value;
    if (value && has_node(graph_.producer(value))) quotient_.add_edge(node_of_[graph_.producer(value).index], to);
  }

  void add_edges() {
    for (OpId id : order_) {
      if (!has_node(id)) continue;
      const int node = node_of_[id.index];
      for (ValueId v : op(id).inputs) {
        add_edge(v, node);
        if (v)
          for (const Extent& e : graph_.type(v).shape) add_edge(e.count, node);
      }
      for (ValueId v : op(id).outputs)
        for (const Extent& e : graph_.type(v).shape)
          if (e.count && graph_.producer(e.count) != id) add_edge(e.count, node);
    }
  }

  LoopShape loop_of(OpId id) const { return loop_shape(graph_.type(op(id).outputs[0]), op(id)); }

  int start(OpId id, Category category) {
    const int g = static_cast<int>(out_.groups.size());
    out_.groups.push_back({category, id, {id}});
    out_.group_of[id.index] = g;
    return g;
  }

  void put(OpId id, int g) {
    out_.groups[g].members.push_back(id);
    out_.group_of[id.index] = g;
  }

  bool merge(OpId a, OpId b) { return quotient_.merge(node_of_[a.index], node_of_[b.index]); }

  void miss(OpId id, int g, std::string why) {
    out_.near_misses.push_back(
        format("'{}' stays out of the kernel of '{}': {}", op(id).name, op(out_.groups[g].root).name, why));
  }

  /// Whether the op reads a value of group `g` through a view (which must not be: the value is not in memory yet), or
  /// reads it while loading.
  bool loads_from(OpId id, int g) const {
    const bool loading = is_loading_kind(op(id).kind) || is_copy(id);
    for (ValueId v : op(id).inputs) {
      if (!v) continue;
      const ValueId base = loaded(v);
      if (!base || out_.group_of[graph_.producer(base).index] != g) continue;
      if (base != v || loading) return true;
    }
    return false;
  }

  /// Pointwise ops that can follow the contraction, in graph order, and how many of them leave one value for others.
  struct Epilogue {
    std::vector<OpId> ops;
    size_t kept = 0;
    OpId tail;
  };

  bool fits_epilogue(OpId id, const LoopShape& loop, const std::set<OpId>& inside) const {
    if (!has_node(id) || category(op(id)) != Category::Pointwise || taken(id) || op(id).outputs.size() != 1)
      return false;
    if (!(loop_of(id) == loop)) return false;
    for (ValueId v : op(id).inputs) {
      if (!v) continue;
      const ValueId base = loaded(v);
      if (base != v && base && inside.contains(graph_.producer(base))) return false;
    }
    return true;
  }

  Epilogue find_epilogue(OpId root) const {
    Epilogue found{{}, 0, root};
    const LoopShape loop = loop_of(root);
    std::set<OpId> inside{root};
    std::set<std::pair<int, OpId>> next;
    std::vector<std::pair<OpId, size_t>> left{{root, graph_.value(graph_.result(root)).uses.size()}};
    size_t open = 1;  // values that ops outside read
    const auto add_readers = [&](OpId id) {
      for (const Use& use : graph_.value(graph_.result(id)).uses)
        if (use.op) next.insert({position_[use.op.index], use.op});
    };
    const auto left_of = [&](OpId id) {
      return std::find_if(left.begin(), left.end(), [&](const auto& l) { return l.first == id; });
    };
    add_readers(root);
    while (!next.empty() && static_cast<int>(found.ops.size()) < kMostMembers) {
      const OpId id = next.begin()->second;
      next.erase(next.begin());
      if (!fits_epilogue(id, loop, inside)) continue;
      for (ValueId v : op(id).inputs) {
        if (!v || !inside.contains(graph_.producer(v))) continue;
        const auto at = left_of(graph_.producer(v));
        if (--at->second == 0) --open;
      }
      inside.insert(id);
      found.ops.push_back(id);
      const size_t uses = graph_.value(graph_.result(id)).uses.size();
      left.push_back({id, uses});
      open += uses > 0;
      if (open == 1 && left_of(id)->second > 0) found.kept = found.ops.size(), found.tail = id;
      add_readers(id);
    }
    return found;
  }

  /// What a device's library does behind a product.
  Epilogue library_epilogue(OpId root) const {
    Epilogue found{{}, 0, root};
    const LoopShape loop = loop_of(root);
    std::vector<EpilogueStep> steps;
    while (std::optional<EpilogueStep> step =
               next_epilogue_step(graph_, module_.constants, graph_.result(found.tail), steps)) {
      const std::set<OpId> inside(step->ops.begin(), step->ops.end());
      if (!std::all_of(step->ops.begin(), step->ops.end(), [&](OpId id) { return fits_epilogue(id, loop, inside); }))
        break;
      found.ops.insert(found.ops.end(), step->ops.begin(), step->ops.end());
      if (!step->is_alone) break;
      found.kept = found.ops.size(), found.tail = step->ops.back();
      steps.push_back(std::move(*step));
    }
    return found;
  }

  void grow_contraction(OpId root) {
    if (taken(root)) return;
    const int g = start(root, Category::Contraction);
    if (op(root).outputs.size() != 1) return;
    const bool by_library = is_library_product({root});
    const Epilogue epilogue = by_library ? library_epilogue(root) : find_epilogue(root);
    for (size_t i = 0; i < epilogue.kept; ++i) {
      const bool merged = merge(root, epilogue.ops[i]);
      WEFT_CHECK(merged, "an epilogue with one result made a cycle at '" + op(epilogue.ops[i]).name + "'");
      put(epilogue.ops[i], g);
    }
    for (size_t i = epilogue.kept; i < epilogue.ops.size() && i <= epilogue.kept; ++i)
      miss(epilogue.ops[i], g, "a value before it has other readers");
    absorb_views(epilogue.tail, g, by_library);
  }

  /// Whether a kernel of these ops would be a library's call.
  bool is_library_product(const std::vector<OpId>& members) const {
    if (!target_.library_products || op(members.front()).kind != OpKind::MatMul) return false;
    const auto in_memory = [&](OpId id) { return taken(id) || has_node(id) || is_alias(id); };
    const Kernel kernel = trial_kernel(module_, graph_, members, in_memory);
    const KernelBody body(kernel, kernel.mesh.size() - graph_.time_axes.size());
    return library_product({body, module_.constants, target_}).strategy.has_value();
  }

  /// Reshapes and transpositions of the result that nothing else reads, if that saves a strided load: as many as leave
  /// a library's product one.
  void absorb_views(OpId tail, int g, bool by_library) {
    std::vector<OpId> chain;
    size_t kept = 0;
    for (ValueId v = graph_.result(tail); graph_.value(v).uses.size() == 1;) {
      const OpId id = graph_.value(v).uses[0].op;
      if (!id || (op(id).kind != OpKind::Reshape && op(id).kind != OpKind::Transpose) || is_alias(id)) break;
      chain.push_back(id);
      if (op(id).kind == OpKind::Transpose) kept = chain.size();
      v = graph_.result(id);
    }
    if (kept && kept < chain.size() && !has_node(chain.back())) kept = chain.size();
    while (by_library && kept > 0 && !is_library_product(with_views(g, chain, kept))) --kept;
    const auto ends = [&] { return op(chain[kept - 1]).kind == OpKind::Transpose || !has_node(chain[kept - 1]); };
    while (kept > 0 && !ends()) --kept;
    for (size_t i = 0; i < kept; ++i) {
      if (has_node(chain[i])) {
        if (!merge(tail, chain[i])) return;
      } else {
        node_of_[chain[i].index] = node_of_[tail.index];
      }
      put(chain[i], g);
    }
  }

  std::vector<OpId> with_views(int g, const std::vector<OpId>& chain, size_t count) const {
    std::vector<OpId> members = out_.groups[g].members;
    members.insert(members.end(), chain.begin(), chain.begin() + static_cast<long>(count));
    return members;
  }

  enum class Part : uint8_t { None, Full, Kept, Dropped };
  struct Row {
    std::vector<int64_t> axes;
    LoopShape full, kept, dropped;

    Part part_of(const LoopShape& loop) const {
      return loop == full ? Part::Full : loop == kept ? Part::Kept : loop == dropped ? Part::Dropped : Part::None;
    }
  };

  Part part_of(ValueId v, const Row& row) const {
    return row.part_of(loop_shape(graph_.type(v), op(graph_.producer(v))));
  }

  bool is_reduction_of(OpId id, const Row& row) const {
    const Op& o = op(id);
    if (category(o) != Category::Reduction || axes_of(o) != row.axes || o.inputs.size() != 1) return false;
    return loop_shape(graph_.type(o.inputs[0]), o) == row.full;
  }

  /// Whether the op works on rows: over the full shape, or over one element a row, from such members as that allows.
  bool fits_row(OpId id, const Row& row, int g) const {
    if (!has_node(id) || taken(id) || op(id).outputs.size() != 1 || loads_from(id, g)) return false;
    if (is_reduction_of(id, row)) return true;
    if (category(op(id)) != Category::Pointwise && op(id).kind != OpKind::Gather) return false;
    const Part part = part_of(graph_.result(id), row);
    if (part == Part::None) return false;
    for (ValueId v : op(id).inputs) {
      if (!v || out_.group_of[graph_.producer(v).index] != g) continue;
      const Part operand = part_of(v, row);
      if (operand != part && !(part == Part::Full && operand == Part::Kept)) return false;
    }
    return true;
  }

  /// The readers of a producer that joins the group must be able to read it as members do.
  bool feeds_row(OpId id, const Row& row, int g) const {
    const Part part = part_of(graph_.result(id), row);
    for (const Use& use : graph_.value(graph_.result(id)).uses) {
      if (!use.op) continue;
      if (out_.group_of[use.op.index] != g) {
        if (!has_node(use.op) && view_leads_to(use.op, g)) return false;
        continue;
      }
      const Part reader =
          category(op(use.op)) == Category::Reduction ? Part::Full : part_of(graph_.result(use.op), row);
      if (reader != part && !(reader == Part::Full && part == Part::Kept)) return false;
    }
    return true;
  }

  bool view_leads_to(OpId view, int g) const {
    for (ValueId v : op(view).outputs)
      for (const Use& use : graph_.value(v).uses) {
        if (!use.op) continue;
        if (out_.group_of[use.op.index] == g) return true;
        if (!has_node(use.op) && view_leads_to(use.op, g)) return true;
      }
    return false;
  }

  void grow_reduction(OpId root) {
    const int g = start(root, Category::Reduction);
    const Op& o = op(root);
    if (o.inputs.size() != 1 || o.outputs.size() != 1) return;
    Row row{axes_of(o), loop_shape(graph_.type(o.inputs[0]), o), {}, {}};
    row.kept = reduced(row.full, row.axes, true);
    row.dropped = reduced(row.full, row.axes, false);
    std::set<std::pair<int, OpId>> next;
    add_neighbours(root, next);
    std::set<OpId> refused;
    while (!next.empty() && static_cast<int>(out_.groups[g].members.size()) < kMostMembers) {
      const OpId id = next.begin()->second;
      next.erase(next.begin());
      if (refused.contains(id) || !fits_row(id, row, g) || !feeds_row(id, row, g)) continue;
      if (!merge(root, id)) {
        refused.insert(id);
        miss(id, g, "that made a cycle through another kernel");
        continue;
      }
      put(id, g);
      add_neighbours(id, next);
    }
  }

  void add_neighbours(OpId id, std::set<std::pair<int, OpId>>& next) const {
    const auto add = [&](OpId n) {
      if (n && has_node(n) && !taken(n)) next.insert({position_[n.index], n});
    };
    for (ValueId v : op(id).inputs)
      if (v) add(graph_.producer(v));
    for (ValueId v : op(id).outputs)
      for (const Use& use : graph_.value(v).uses) add(use.op);
  }

  void join_pointwise(OpId id) {
    const LoopShape loop = loop_of(id);
    const bool loading = is_loading_kind(op(id).kind) || is_copy(id);
    if (!loading && op(id).outputs.size() == 1)
      for (ValueId v : op(id).inputs) {
        if (!v) continue;
        const OpId producer = graph_.producer(v);
        const int g = out_.group_of[producer.index];
        if (g < 0 || out_.groups[g].category != Category::Pointwise || !(loop_of(producer) == loop)) continue;
        join(id, g);
      }
    if (!taken(id)) start(id, Category::Pointwise);
  }

  /// Adds the op, or the group that it is in, to group g where that is legal.
  void join(OpId id, int g) {
    const int own = out_.group_of[id.index];
    if (own == g) return;
    const std::vector<OpId> moved = own < 0 ? std::vector<OpId>{id} : out_.groups[own].members;
    const OpId root = out_.groups[g].root;
    if (moved.size() + out_.groups[g].members.size() > kMostMembers)
      return miss(id, g, "the kernel would be too large");
    for (OpId m : moved)
      if (loads_from(m, g)) return miss(m, g, "it reads a value of it through a view");
    if (own >= 0)
      for (OpId m : out_.groups[g].members)
        if (loads_from(m, own)) return miss(m, own, "it reads a value of it through a view");
    if (!merge(root, id)) return miss(id, g, "that made a cycle through another kernel");
    for (OpId m : moved) put(m, g);
    if (own >= 0) out_.groups[own].members.clear();
  }

  /// Members in graph order, roots, groups in the order of their last members.
  void finish() {
    std::erase_if(out_.groups, [](const FusionGroup& g) { return g.members.empty(); });
    const auto earlier = [&](OpId a, OpId b) { return position_[a.index] < position_[b.index]; };
    for (FusionGroup& g : out_.groups) {
      std::sort(g.members.begin(), g.members.end(), earlier);
      if (g.category == Category::Pointwise) g.root = g.members.back();
      if (g.category != Category::Reduction) continue;
      for (OpId id : g.members)
        if (category(op(id)) == Category::Reduction) g.root = id;
    }
    std::sort(out_.groups.begin(), out_.groups.end(),
              [&](const FusionGroup& a, const FusionGroup& b) { return earlier(a.members.back(), b.members.back()); });
    for (size_t g = 0; g < out_.groups.size(); ++g)
      for (OpId id : out_.groups[g].members) out_.group_of[id.index] = static_cast<int>(g);
  }

  const Module& module_;
  const Graph& graph_;
  const Target& target_;
  const bool region_;
  const std::vector<OpId> order_;
  Fusion out_;
  std::vector<int> node_of_;
  std::vector<bool> stored_;
  Quotient quotient_;
  std::vector<int> position_;
};

}  // namespace

bool is_carried_along(const Graph& graph, const Fusion& fusion, OpId id) {
  const Op& op = graph.op(id);
  if (fusion.group_of[id.index] >= 0 || fusion.alias[id.index]) return false;
  return is_load_view(op) || is_literal(graph, op) || op.kind == OpKind::Iota;
}

Fusion decide_fusion(const Module& module, const Graph& graph, const Target& target, bool region) {
  return FusionPlanner(module, graph, region, target).run();
}

std::string fusion_text(const Graph& graph, const Fusion& fusion) {
  std::string text;
  for (const FusionGroup& g : fusion.groups) {
    std::vector<std::string> names;
    for (OpId id : g.members) names.push_back(std::string(op_def(graph.op(id)).name) + " " + graph.op(id).name);
    text += format("{} {}: {}\n", category_name(g.category), graph.op(g.root).name, join(names, ", "));
  }
  for (const std::string& miss : fusion.near_misses) text += miss + "\n";
  return text;
}

}  // namespace weftc
