// Enumerates candidates of a tuner for one collective, and keeps the legal ones. The search space of an all-reduce
// y.sum, which a contraction feeds and ops a, b read:
//
//   y.sum as it is
//   split d                                    y.rs, y.ag                     for each dim d
//   split d, reorder y.ag past {a, b, ...}     y.rs, a, b, y.ag               as many ops as the rules allow
//   split d, reorder, fuse                     one kernel of these
//   each of them, overlap n chunks             with the ops that feed it      for each n and mechanism
//   reduce y.sum, z.sum past {y + z}           y + z, one all-reduce          where sums are added up
//
// Legality is asked of the transforms themselves (IsLegal), so that nothing here repeats a rule.
#include "passes/transform/transform_candidates.h"

#include <algorithm>
#include <map>
#include <set>

#include "ir/base/contains.h"
#include "ir/op_def.h"
#include "passes/select.h"

namespace weftc {

namespace {

constexpr size_t kMostFollowers = 64;

/// A name as a pattern over layers: its first run of digits is `{l}`.
struct LayerPattern {
  std::string before, number;

  explicit LayerPattern(const std::string& name) {
    const size_t first = name.find_first_of("0123456789");
    if (first == std::string::npos) return;
    const size_t end = std::min(name.find_first_not_of("0123456789", first), name.size());
    before = name.substr(0, first), number = name.substr(first, end - first);
  }
  /// "h.3.mlp.bias" of layer 3 -> "h.{l}.mlp.bias"; a name outside of layers, or of another layer, stays.
  std::string of(const std::string& name) const {
    const std::string start = before + number;
    const bool same =
        !number.empty() && name.starts_with(start) && !isdigit(name[std::min(start.size(), name.size() - 1)]);
    return same ? before + "{l}" + name.substr(start.size()) : name;
  }
};

/// True if a schedule can write the name: it holds no pattern.
bool can_be_selected(const std::string& name) {
  return !name.empty() && name.find_first_of("*{}") == std::string::npos;
}

/// True for collectives that send something and have a name.
bool is_tunable(const Op& op) {
  return category(op) == Category::Collective && op.kind != OpKind::ShardSlice && can_be_selected(op.name) &&
         !op.outputs.empty();
}

/// One collective, or one of each layer, and its surroundings in the first layer.
class Neighbourhood {
 public:
  Neighbourhood(const Module& module, const std::string& collective, const std::vector<int>& chunks,
                const IsLegal& is_legal)
      : module_(module),
        graph_(module.graph),
        names_(module, module.graph),
        name_(collective),
        chunks_(chunks),
        is_legal_(is_legal) {}

  std::vector<Candidate> candidates();

 private:
  /// Finds the collective in the graph, in its first layer; false if it is gone.
  bool find();
  Selector selector(const std::string& name) const { return {Selector::Kind::Name, name, {}}; }
  std::vector<Selector> selectors(const std::vector<std::string>& names) const;
  std::string selectable(OpId id) const;
  std::vector<std::vector<std::string>> producers() const;
  std::string contraction_after() const;
  std::vector<std::string> readers() const;
  std::vector<std::string> followers() const;
  std::vector<std::string> gathers_of(const std::vector<std::string>& computed) const;
  std::vector<std::string> leaders() const;
  using AreLegal = std::function<bool(const std::vector<std::string>&)>;
  static std::vector<std::string> grown(std::vector<std::string> names, const std::vector<std::string>& more,
                                        const AreLegal& legal);
  std::vector<std::string> longest_past(const std::vector<TransformStep>& steps, const std::string& gather) const;
  void offer(const std::string& what, const std::vector<TransformStep>& steps);
  void offer_overlaps(const std::string& what, const std::vector<TransformStep>& steps,
                      const std::vector<std::string>& ops, const std::string& from = "");
  void offer_overlaps_of_producers(const std::string& what, const std::vector<TransformStep>& steps,
                                   const std::vector<std::string>& ops);
  void offer_splits();
  void offer_split(int dim);
  bool collect_sums(ValueId value, std::vector<std::string>& sums, std::vector<std::string>& past) const;
  void offer_joint_sum();
  void offer_fused();
  void offer_long_overlaps();

  const Module& module_;
  const Graph& graph_;
  const SelectableNames names_;
  const std::string name_;
  const std::vector<int>& chunks_;
  const IsLegal& is_legal_;
  OpId op_;
  LayerPattern layer_{""};
  std::vector<Candidate> found_;
};

bool Neighbourhood::find() {
  const std::vector<Bindings> instances = names_.bindings({selector(name_)});
  if (instances.empty()) return false;
  const std::vector<OpId> ops = names_.select_ops(selector(name_), instances.front());
  if (ops.empty() || !is_tunable(graph_.op(ops.front()))) return false;
  op_ = ops.front();
  if (name_.find("{l}") != std::string::npos) layer_ = LayerPattern(graph_.op(op_).name);
  return true;
}

std::vector<Selector> Neighbourhood::selectors(const std::vector<std::string>& names) const {
  std::vector<Selector> all;
  for (const std::string& name : names) all.push_back(selector(name));
  return all;
}

/// The name by which a step can select an op in every layer, preferably that of its node; "" where no name can.
std::string Neighbourhood::selectable(OpId id) const {
  const Op& op = graph_.op(id);
  const bool is_of_node = op.origins.size() == 1 && category(op) != Category::Collective;
  const std::string& node = is_of_node ? module_.origins[op.origins[0].index].name : op.name;
  const std::string& name = names_.has(node) ? node : op.name;
  const std::vector<OpId> meant = can_be_selected(name) ? names_.ops(name) : std::vector<OpId>{};
  if (!contains(meant, id)) return "";
  const std::string pattern = layer_.of(name);
  // A step of every layer that names one op of one layer would move it again and again.
  return pattern == name && name_.find('{') != std::string::npos ? "" : pattern;
}

/// The op that computes `v`, seen through views.
OpId after_views(const Graph& graph, ValueId v) {
  while (category(graph.producer_op(v)) == Category::View) v = graph.producer_op(v).inputs[0];
  return graph.producer(v);
}

/// Chains of ops that compute the collective's operand and that a chunk can run through: the contraction or reduction
/// alone, and everything from the preceding contraction on. Empty where no contraction or reduction feeds the
/// collective.
std::vector<std::vector<std::string>> Neighbourhood::producers() const {
  const OpId last = after_views(graph_, graph_.op(op_).inputs[0]);
  const Category kind = category(graph_.op(last));
  if (selectable(last).empty() || (kind != Category::Contraction && kind != Category::Reduction)) return {};
  std::vector<std::string> chain{selectable(last)};
  std::vector<std::vector<std::string>> chains{chain};
  for (OpId at = last; chain.size() < kMostFollowers;) {
    at = after_views(graph_, graph_.op(at).inputs[0]);
    const Category before = category(graph_.op(at));
    const std::string name = selectable(at);
    if (name.empty() || (before != Category::Pointwise && before != Category::Contraction)) break;
    if (name != chain.front()) chain.insert(chain.begin(), name);
    if (before != Category::Contraction) continue;
    chains.push_back(chain);
    break;
  }
  return chains;
}

/// A contraction that reads the collective's result, or "".
std::string Neighbourhood::contraction_after() const {
  for (const Use& use : graph_.value(graph_.result(op_)).uses)
    if (use.op && category(graph_.op(use.op)) == Category::Contraction) return selectable(use.op);
  return "";
}

/// All readers of the collective by name; empty if one cannot be named, because an all-gather moves past all readers or
/// none.
std::vector<std::string> Neighbourhood::readers() const {
  std::vector<std::string> names;
  for (const Use& use : graph_.value(graph_.result(op_)).uses) {
    const std::string name = use.op ? selectable(use.op) : "";
    if (name.empty()) return {};
    if (!contains(names, name)) names.push_back(name);
  }
  return names;
}

/// Ops computed from the collective's result up to the next contraction, collective or region, in graph order.
std::vector<std::string> Neighbourhood::followers() const {
  std::set<ValueId> made{graph_.result(op_)};
  std::vector<std::string> names;
  for (OpId id = graph_.next(op_); id && names.size() < kMostFollowers; id = graph_.next(id)) {
    const Op& op = graph_.op(id);
    const bool reads =
        std::any_of(op.inputs.begin(), op.inputs.end(), [&](ValueId v) { return v && made.contains(v); });
    const Category kind = category(op);
    if (!reads || kind == Category::Contraction || kind == Category::Collective || kind == Category::Region) continue;
    const std::string name = selectable(id);
    if (name.empty()) continue;
    made.insert(op.outputs.begin(), op.outputs.end());
    if (kind != Category::View && !contains(names, name)) names.push_back(name);
  }
  return names;
}

/// All-gathers of the results of these ops.
std::vector<std::string> Neighbourhood::gathers_of(const std::vector<std::string>& computed) const {
  std::vector<std::string> names;
  for (OpId id = graph_.next(op_); id; id = graph_.next(id)) {
    if (graph_.op(id).kind != OpKind::AllGather || selectable(id).empty()) continue;
    const std::string from = selectable(after_views(graph_, graph_.op(id).inputs[0]));
    if (contains(computed, from)) names.push_back(selectable(id));
  }
  return names;
}

/// Ops from which the collective's operand is computed, back to a contraction, collective or region; nearest first.
std::vector<std::string> Neighbourhood::leaders() const {
  std::set<ValueId> needed{graph_.op(op_).inputs[0]};
  std::vector<std::string> names;
  for (OpId id = graph_.previous(op_); id && names.size() < kMostFollowers; id = graph_.previous(id)) {
    const Op& op = graph_.op(id);
    const bool feeds = std::any_of(op.outputs.begin(), op.outputs.end(), [&](ValueId v) { return needed.contains(v); });
    const Category kind = category(op);
    if (!feeds || (kind != Category::Pointwise && kind != Category::Reduction && kind != Category::View)) continue;
    const std::string name = selectable(id);
    if (name.empty()) continue;
    needed.insert(op.inputs.begin(), op.inputs.end());
    if (kind != Category::View && !contains(names, name)) names.push_back(name);
  }
  return names;
}

/// Extends the names by all of the others if that is legal, else by those that can join one after another.
std::vector<std::string> Neighbourhood::grown(std::vector<std::string> names, const std::vector<std::string>& more,
                                              const AreLegal& legal) {
  std::vector<std::string> all = names;
  all.insert(all.end(), more.begin(), more.end());
  if (legal(all)) return all;
  for (const std::string& name : more) {
    names.push_back(name);
    if (!legal(names)) names.pop_back();
  }
  return names;
}

/// The readers, which an all-gather moves past together, and then other ops that can run on slices, one by one.
std::vector<std::string> Neighbourhood::longest_past(const std::vector<TransformStep>& steps,
                                                     const std::string& gather) const {
  std::vector<std::string> past = readers();
  const auto legal = [&](const std::vector<std::string>& names) {
    std::vector<TransformStep> tried = steps;
    tried.push_back({ReorderStep{true, {selector(gather)}, selectors(names)}, {}});
    return is_legal_(tried);
  };
  if (past.empty() || !legal(past)) return {};
  std::vector<std::string> more = followers();
  std::erase_if(more, [&](const auto& name) { return contains(past, name); });
  return grown(std::move(past), more, legal);
}

void Neighbourhood::offer(const std::string& what, const std::vector<TransformStep>& steps) {
  found_.push_back({what, steps});
}

/// Offers the steps followed by an overlap of `ops`, for each mechanism, dim and chunk count that is legal.
void Neighbourhood::offer_overlaps(const std::string& what, const std::vector<TransformStep>& steps,
                                   const std::vector<std::string>& ops, const std::string& from) {
  const int dims = graph_.type(graph_.result(op_)).ndim();
  for (const Mechanism mechanism : {Mechanism::Streams, Mechanism::Signal, Mechanism::Fused})
    for (int dim = 0; dim < dims; ++dim)
      for (const int count : chunks_) {
        std::vector<TransformStep> tried = steps;
        tried.push_back({OverlapStep{selectors(ops), count, dim, mechanism}, {}});
        if (!is_legal_(tried)) continue;
        constexpr const char* kNames[] = {"streams", "signal", "fused"};
        offer(format("{}{}overlap{} {} dim {} {}", what, what.empty() ? "" : ", ", from, count, dim,
                     kNames[static_cast<size_t>(mechanism)]),
              tried);
      }
}

/// Offers overlaps of `ops` together with each chain of ops that feeds the collective.
void Neighbourhood::offer_overlaps_of_producers(const std::string& what, const std::vector<TransformStep>& steps,
                                                const std::vector<std::string>& ops) {
  for (std::vector<std::string> chain : producers()) {
    const std::string from = chain.size() == 1 ? "" : " from " + chain.front();
    chain.insert(chain.end(), ops.begin(), ops.end());
    offer_overlaps(what, steps, chain, from);
  }
}

/// Offers the split along `dim`, then, as far as they are legal, the reorder and the fusion that follow it.
void Neighbourhood::offer_split(int dim) {
  const std::string scatter = name_ + ".rs", gather = name_ + ".ag", fused = name_ + ".fused";
  std::vector<TransformStep> steps{{SplitStep{selector(name_), dim, {scatter, gather}}, {}}};
  if (!is_legal_(steps)) return;
  std::string what = format("split {}", dim);
  offer(what, steps);
  offer_overlaps_of_producers(what, steps, {scatter});
  const std::vector<std::string> past = longest_past(steps, gather);
  if (past.empty()) return;
  steps.push_back({ReorderStep{true, {selector(gather)}, selectors(past)}, {}});
  what += format(", reorder past {}", past.size());
  offer(what, steps);
  std::vector<std::string> chain{scatter};
  chain.insert(chain.end(), past.begin(), past.end());
  chain.push_back(gather);
  steps.push_back({FuseStep{selectors(chain), fused}, {}});
  if (!is_legal_(steps)) return;
  what += ", fuse";
  offer(what, steps);
  offer_overlaps_of_producers(what, steps, {fused});
}

void Neighbourhood::offer_splits() {
  const int dims = graph_.type(graph_.result(op_)).ndim();
  for (int dim = 0; dim < dims; ++dim) offer_split(dim);
}

/// True if the value has one reader and is an all-reduce, or computed from such values alone. Collects the names of the
/// all-reduces, and of the other ops.
bool Neighbourhood::collect_sums(ValueId value, std::vector<std::string>& sums, std::vector<std::string>& past) const {
  if (!value || graph_.value(value).uses.size() != 1) return false;
  const OpId id = graph_.producer(value);
  const Op& op = graph_.op(id);
  if (selectable(id).empty()) return false;
  if (op.kind == OpKind::AllReduce) return sums.push_back(selectable(id)), true;
  if (op.inputs.empty() || (category(op) != Category::Pointwise && category(op) != Category::View)) return false;
  if (!std::ranges::all_of(op.inputs, [&](ValueId v) { return collect_sums(v, sums, past); })) return false;
  past.push_back(selectable(id));
  return true;
}

/// Offers to join all-reduces whose results are only added up: one all-reduce of the sum of their operands, for as many
/// as the rules allow.
void Neighbourhood::offer_joint_sum() {
  std::vector<TransformStep> longest;
  size_t joined = 0;
  for (OpId at = op_;;) {
    const auto& uses = graph_.value(graph_.result(at)).uses;
    if (uses.size() != 1 || !uses.front().op || graph_.op(uses.front().op).outputs.size() != 1) break;
    at = uses.front().op;
    std::vector<std::string> sums, past;
    if (selectable(at).empty() || category(graph_.op(at)) == Category::Collective) break;
    if (!std::ranges::all_of(graph_.op(at).inputs, [&](ValueId v) { return collect_sums(v, sums, past); })) break;
    past.push_back(selectable(at));
    std::vector<TransformStep> steps{{ReorderStep{false, selectors(sums), selectors(past)}, {}}};
    if (sums.size() > 1 && is_legal_(steps)) longest = std::move(steps), joined = sums.size();
  }
  if (joined > 0) offer(format("reduce {} sums as one", joined), longest);
}

/// Fuses a reduce-scatter with the ops that compute from its slices and their all-gathers, or an all-gather with the
/// ops that compute its slices.
void Neighbourhood::offer_fused() {
  std::vector<std::string> more;
  if (graph_.op(op_).kind == OpKind::AllGather) {
    more = leaders();
  } else {
    more = followers();
    const std::vector<std::string> gathers = gathers_of(more);
    more.insert(more.end(), gathers.begin(), gathers.end());
  }
  const std::string fused = name_ + ".fused";
  const auto steps_of = [&](const std::vector<std::string>& names) {
    return std::vector<TransformStep>{{FuseStep{selectors(names), fused}, {}}};
  };
  const std::vector<std::string> chain =
      grown({name_}, more, [&](const auto& names) { return is_legal_(steps_of(names)); });
  if (chain.size() == 1) return;
  const std::string what = format("fuse {}", chain.size());
  offer(what, steps_of(chain));
  offer_overlaps_of_producers(what, steps_of(chain), {fused});
}

/// Offers the collective with all ops that can run in the same chunks after it, or before it if it is an all-gather.
void Neighbourhood::offer_long_overlaps() {
  const bool gathers = graph_.op(op_).kind == OpKind::AllGather;
  for (const int count : chunks_) {
    const auto legal = [&](const std::vector<std::string>& names) {
      return is_legal_({{OverlapStep{selectors(names), count, 0, Mechanism::Streams}, {}}});
    };
    std::vector<std::vector<std::string>> starts = producers();
    if (starts.empty()) starts.push_back({});
    for (std::vector<std::string>& start : starts) {
      start.push_back(name_);
      const std::vector<std::string> chain = grown(start, gathers ? leaders() : followers(), legal);
      if (chain.size() > start.size() && legal(chain))
        offer(format("overlap {} ops from {}, {} dim 0 streams", chain.size(), chain.front(), count),
              {{OverlapStep{selectors(chain), count, 0, Mechanism::Streams}, {}}});
    }
  }
}

std::vector<Candidate> Neighbourhood::candidates() {
  if (!find()) return {};
  offer("as it is", {});
  const std::string after = contraction_after();
  offer_overlaps_of_producers("", {}, {name_});
  if (!after.empty()) offer_overlaps("", {}, {name_, after});
  const OpKind kind = graph_.op(op_).kind;
  if (kind == OpKind::AllReduce) offer_joint_sum(), offer_splits();
  if (kind == OpKind::ReduceScatter || kind == OpKind::AllGather) {
    offer_fused();
    offer_long_overlaps();
  }
  return std::move(found_);
}

}  // namespace

std::vector<std::string> tunable_collectives(const Module& module) {
  const Graph& graph = module.graph;
  const SelectableNames names(module, graph);
  const auto key_of = [&](OpId id) {
    const Op& op = graph.op(id);
    return std::pair{LayerPattern(op.name).of(op.name),
                     op_def(op).name + type_text(graph.type(graph.result(id)), module.mesh(graph, op.place))};
  };
  std::map<std::pair<std::string, std::string>, size_t> alike;
  for (OpId id = graph.first(); id; id = graph.next(id))
    if (is_tunable(graph.op(id))) ++alike[key_of(id)];
  std::vector<std::string> found;
  for (OpId id = graph.first(); id; id = graph.next(id)) {
    if (!is_tunable(graph.op(id))) continue;
    const auto key = key_of(id);
    // A pattern that also matches others would tune those with it.
    const Selector pattern{Selector::Kind::Name, key.first, {}};
    const bool is_layered = alike[key] > 1 && names.bindings({pattern}).size() == alike[key];
    const std::string name = is_layered ? key.first : graph.op(id).name;
    if (!contains(found, name)) found.push_back(name);
  }
  return found;
}

std::vector<Candidate> transform_candidates(const Module& module, const std::string& collective,
                                            const std::vector<int>& chunks, const IsLegal& is_legal) {
  return Neighbourhood(module, collective, chunks, is_legal).candidates();
}

}  // namespace weftc
