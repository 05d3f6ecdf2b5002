// Types every value, in order, and turns operands that shapes depend on into attributes.
//
//   %s = Shape(%x)                              %y = Reshape(%x) {shape = [8, 64]} : f32[8, 64]
//   %y = Reshape(%x, %s2)  with %s2 from %s ->
//
// Exporters compute shapes with Shape, Gather and Concat. Integers are folded here as soon as they are known, because
// later types need the values. An If on a known condition is replaced by its branch.
#include "passes/prepare/type_inference.h"

#include <algorithm>

#include "ir/base/contains.h"
#include "ir/builder.h"
#include "ir/named_lengths.h"
#include "ir/op_def.h"
#include "ir/shape_arithmetic.h"
#include "ir/tied_extents.h"
#include "passes/prepare/absorb_operands.h"
#include "passes/prepare/fit_counts.h"
#include "passes/prepare/fold.h"
#include "passes/prepare/refused_branch.h"
#include "passes/prepare/replace_by_parts.h"
#include "passes/prepare/scan_to_loop.h"
#include "passes/prepare/unfold_sequences.h"
#include "passes/prepare/unroll_loop.h"

namespace weftc {

namespace {

// Folding larger tensors here would only slow the pass down: no shape has that many dimensions.
constexpr int64_t kLargestShapeData = 1 << 16;

/// Types one graph; regions get one of their own.
class TypeInference {
 public:
  TypeInference(Module& module, Graph& graph, Diags& diags, const KnownLengths& known)
      : module_(module),
        graph_(graph),
        diags_(diags),
        shapes_(known.limits),
        pins_(known.pins),
        kept_else_(known.kept_else) {}

  /// Infers all types. Returns the value that each output of the graph stood for.
  std::vector<Unfolded> run() {
    infer_range(graph_.first(), {});
    return unfold_outputs(graph_, unfolded_);
  }
  /// The bounds and ties of lengths that the model implies.
  KnownLengths found() const { return {shapes_.limits(), pins_, demands_, unlike_ifs_, kept_else_}; }
  /// Starts a trial: lengths that ops take for others may be lowered, so that all such lengths are found, although the
  /// types do not hold then. Errors in a branch that the program will refuse count too, since other bounds may make the
  /// branch valid.
  void begin_trial() { notes_ties_ = is_trial_ = true; }

 private:
  void infer_range(OpId first, OpId end);
  bool infer(OpId id);
  bool infer_region(OpId id);
  bool infer_loop(OpId id);
  bool infer_rolled(OpId id);
  bool infer_with_operands(OpId id);
  std::vector<Unfolded> infer_region_body(OpId id, Graph& region, Diags& diags);
  bool infer_region_bodies(OpId id, std::vector<std::vector<Unfolded>>& outputs);
  std::vector<Unfolded> refuse(OpId id, size_t branch, const std::string& why);
  void refuse_other_ndim(OpId id, std::vector<std::vector<Unfolded>>& outputs);
  bool take_known_branch(OpId id);
  bool make_loop(OpId id);
  void bound_states(OpId id);
  void note_shape_values(OpId id);
  void note_demand(OpId id);
  void note_demands(const Least& demands);
  bool fold_shape_values(OpId id);
  bool is_typed_by_parts(OpId id) const;
  bool replace_now(OpId id);
  bool agree_bounds(OpId id);
  bool note_tie(const LooseLength& loose);
  std::optional<int64_t> state_bound(ValueId value, size_t axis) const;
  bool is_small(OpId id) const;
  TypedGraph typed_graph() {
    return {module_, graph_, unfolded_, diags_, [this](OpId first, OpId end) { infer_range(first, end); }};
  }

  // One error is enough: ops that depend on a value without a type are skipped.
  bool has_untyped_operand(OpId id) const {
    const auto& inputs = graph_.op(id).inputs;
    return std::any_of(inputs.begin(), inputs.end(), [&](ValueId v) { return v && untyped(v); });
  }
  bool untyped(ValueId v) const { return v.index < untyped_.size() && untyped_[v.index]; }
  void mark_untyped(OpId id) {
    untyped_.resize(graph_.value_capacity());
    for (ValueId v : graph_.op(id).outputs) untyped_[v.index] = true;
  }

  Module& module_;
  Graph& graph_;
  Diags& diags_;
  std::vector<bool> untyped_;
  ShapeValues shapes_;
  UnfoldedValues unfolded_;
  Least demands_;
  std::map<std::string, int64_t> pins_;
  std::set<std::string> unlike_ifs_, kept_else_;
  bool notes_ties_ = false, is_trial_ = false;
};

/// Types the ops from `first` up to `end`; they may be replaced meanwhile.
void TypeInference::infer_range(OpId first, OpId end) {
  for (OpId id = first; id && !(id == end);) {
    const OpId next = graph_.next(id);
    if (graph_.op(id).kind != OpKind::Input && (has_untyped_operand(id) || !infer(id))) mark_untyped(id);
    id = next;
  }
}

/// True if the results are so small that shapes may depend on them.
bool TypeInference::is_small(OpId id) const {
  const Op& op = graph_.op(id);
  return std::all_of(op.outputs.begin(), op.outputs.end(),
                     [&](ValueId v) { return graph_.type(v).count() <= kLargestShapeData; });
}

/// True for integers, and for a few reals: the values with which shape chains compute.
bool is_shape_data(const Graph& graph, const Op& op) {
  return std::all_of(op.outputs.begin(), op.outputs.end(),
                     [&](ValueId v) { return !is_float(graph.type(v).dtype) || graph.type(v).count() <= 16; });
}

/// True if one of two branches can be typed and gives tensors, and the other one is invalid. A branch that is only
/// unsupported could be run, and other bounds may make one valid.
bool may_refuse(const std::vector<std::vector<Unfolded>>& outputs, const std::vector<Diags>& found) {
  if (found[0].ok() == found[1].ok() || found[found[0].ok() ? 1 : 0].exit_code() != 1) return false;
  return std::ranges::all_of(outputs[found[0].ok() ? 0 : 1],
                             [](const Unfolded& output) { return output.kind == Unfolded::Kind::Tensor; });
}

// The parameters of If's branches are all operands but the condition; of Loop's body: the iteration, then the operands
// without the trip count.
std::vector<Unfolded> TypeInference::infer_region_body(OpId id, Graph& region, Diags& diags) {
  const bool loop = graph_.op(id).kind == OpKind::Loop;
  const size_t carried = loop ? static_cast<size_t>(graph_.op(id).integer_or("carried", 0)) : 0;
  TypeInference inference(module_, region, diags, {shapes_.limits(), {}, {}, {}, kept_else_});
  inference.is_trial_ = is_trial_;
  for (size_t p = 0; p < region.inputs().size(); ++p) {
    if (loop && p < 2) {
      region.retype(region.inputs()[p], {p ? DType::Bool : DType::I64, {}, {}});
      continue;
    }
    const size_t operand = loop ? p : p + 1;
    const ValueId outer = graph_.op(id).inputs[operand];
    region.retype(region.inputs()[p], graph_.type(outer));
    const bool is_captured = !loop || p >= 2 + carried;
    if (const std::vector<Length>* known = is_captured ? shapes_.find(outer) : nullptr)
      inference.shapes_.set(region.inputs()[p], *known);
  }
  std::vector<Unfolded> outputs = inference.run();
  note_demands(inference.demands_);
  unlike_ifs_.merge(inference.unlike_ifs_);
  return outputs;
}

/// Types the regions of an op; of an If one branch is enough.
bool TypeInference::infer_region_bodies(OpId id, std::vector<std::vector<Unfolded>>& outputs) {
  std::vector<Diags> found(graph_.op(id).regions.size());
  for (size_t r = 0; r < found.size(); ++r)
    outputs.push_back(infer_region_body(id, graph_.edit(id).regions[r], found[r]));
  const bool has_refused = graph_.op(id).kind == OpKind::If && may_refuse(outputs, found);
  if (has_refused) {
    const size_t refused = found[0].ok() ? 1 : 0;
    outputs[refused] = refuse(id, refused, first_error(found[refused]));
    if (!is_trial_) found[refused] = {};
  }
  for (const Diags& each : found) diags_.append(each);
  if (!has_refused && !std::ranges::all_of(found, &Diags::ok)) return false;
  if (graph_.op(id).kind == OpKind::If) refuse_other_ndim(id, outputs);
  return true;
}

std::vector<Unfolded> TypeInference::refuse(OpId id, size_t branch, const std::string& why) {
  refuse_branch(module_, graph_, id, branch, why, diags_);
  std::vector<Unfolded> outputs;
  for (const Graph::Output& output : graph_.op(id).regions[branch].outputs())
    outputs.push_back(Unfolded::tensor(output.value));
  return outputs;
}

/// The nodes after the If can read only one of two branches that give other numbers of dimensions.
void TypeInference::refuse_other_ndim(OpId id, std::vector<std::vector<Unfolded>>& outputs) {
  const Op& op = graph_.op(id);
  const auto is_unlike = [&](size_t i) {
    const auto ndim = [&](size_t r) { return op.regions[r].type(op.regions[r].outputs()[i].value).ndim(); };
    return ndim(0) != ndim(1);
  };
  const auto is_tensor = [](const Unfolded& output) { return output.kind == Unfolded::Kind::Tensor; };
  if (!std::ranges::all_of(outputs[0], is_tensor) || !std::ranges::all_of(outputs[1], is_tensor)) return;
  for (size_t i = 0; i < outputs[0].size(); ++i) {
    if (!is_unlike(i)) continue;
    const size_t refused = kept_else_.contains(op.name) ? 0 : 1;
    unlike_ifs_.insert(op.name);
    const auto shape = [&](size_t r) { return shape_text(op.regions[r].type(op.regions[r].outputs()[i].value).shape); };
    const std::string why =
        format("it gives shape {} where the other branch gives {}", shape(refused), shape(1 - refused));
    outputs[refused] = refuse(id, refused, why);
    return;
  }
}

/// Replaces an If with a known condition by the ops of the branch that is taken.
bool TypeInference::take_known_branch(OpId id) {
  const Op& op = graph_.op(id);
  if (op.kind != OpKind::If) return false;
  const std::optional<Tensor> condition = OpView(module_, graph_, op).known(0);
  if (!condition || condition->size() != 1) return false;
  const Graph region = op.regions[condition->int_at(0) ? 0 : 1];
  const OpId after = graph_.next(id);
  OpId first = graph_.previous(id);
  const std::vector<ValueId> results = inline_region(graph_, region, {op.inputs.begin() + 1, op.inputs.end()}, id);
  const std::vector<ValueId> outputs = graph_.op(id).outputs;
  for (size_t r = 0; r < outputs.size(); ++r) {
    const std::string name = graph_.value(outputs[r]).name;
    graph_.replace_uses(outputs[r], results[r]);
    const auto& captures = graph_.op(id).inputs;
    if (contains(captures, results[r])) continue;
    graph_.rename(outputs[r], name + "/if");
    graph_.rename(results[r], name);
  }
  graph_.erase(id);
  infer_range(first ? graph_.next(first) : graph_.first(), after);
  return true;
}

/// Replaces a Scan by a Loop, which is typed like any other.
bool TypeInference::make_loop(OpId scan) {
  const std::optional<OpId> loop = add_loop_of_scan(module_, graph_, scan, diags_);
  return loop && infer_rolled(*loop) && replace_scan(module_, graph_, scan, *loop, diags_);
}

/// Gives the next value of a state the state's bound.
void TypeInference::bound_states(OpId id) {
  for (ValueId v : graph_.op(id).outputs) {
    TensorType type = graph_.type(v);
    for (size_t d = 0; d < type.shape.size(); ++d) {
      Extent& extent = type.shape[d];
      const std::optional<int64_t> bound = extent.is_run_time() ? state_bound(v, d) : std::nullopt;
      if (!bound || *bound >= extent.bound) continue;
      extent.bound = *bound;
      shapes_.limit(*extent.length, *bound);
    }
    graph_.retype(v, std::move(type));
  }
}

/// Notes the values of an op that is shape arithmetic.
void TypeInference::note_shape_values(OpId id) {
  const Op& op = graph_.op(id);
  std::optional<std::vector<std::vector<Length>>> values = shape_values(OpView(module_, graph_, op, nullptr, &shapes_));
  if (!values) note_demand(id);
  for (size_t r = 0; values && r < values->size(); ++r) shapes_.set(op.outputs[r], std::move((*values)[r]));
}

/// Notes from which length on a quotient is a length: where its dividend is negative, it is rounded towards 0.
void TypeInference::note_demand(OpId id) {
  const Op& op = graph_.op(id);
  if (op.kind != OpKind::Div && op.kind != OpKind::Mod) return;
  const auto elements = OpView(module_, graph_, op, nullptr, &shapes_).lengths(0);
  for (const Length& each : elements.value_or(std::vector<Length>())) {
    const auto demand = each.low() < 0 ? least_for(each) : std::nullopt;
    if (demand) note_demands({*demand});
  }
}

void TypeInference::note_demands(const Least& demands) {
  for (const auto& [name, least] : demands) demands_[name] = std::max(demands_[name], least);
}

/// Replaces an op by Constants if shape arithmetic knows all its elements: if only the batch of a tensor is open, its
/// other extents are numbers.
bool TypeInference::fold_shape_values(OpId id) {
  constexpr int64_t kFar = int64_t{1} << 60;  // where numbers are cut off
  const Op& op = graph_.op(id);
  if (category(op) == Category::Source || category(op) == Category::Region || is_foldable(module_, graph_, id))
    return false;
  std::vector<Tensor> results;
  for (ValueId v : op.outputs) {
    const std::vector<Length>* elements = shapes_.find(v);
    const auto is_number = [](const Length& e) { return e.is_constant() && std::abs(e.constant()) < kFar; };
    if (!elements || !std::ranges::all_of(*elements, is_number)) return false;
    Tensor& tensor = results.emplace_back(graph_.type(v).dtype, graph_.type(v).dims());
    for (size_t i = 0; i < elements->size(); ++i)
      tensor.put(static_cast<int64_t>(i), static_cast<double>((*elements)[i].constant()));
  }
  replace_by_constants(module_, graph_, id, results);
  return true;
}

/// True if the op's shape, or where it reads, cannot be told again without shape arithmetic, or by data only.
bool TypeInference::is_typed_by_parts(OpId id) const {
  const Op& op = graph_.op(id);
  const QuestionFn asks = op_def(op).is_typed_by_parts;
  return asks && asks(OpView(module_, graph_, op, nullptr, &shapes_));
}

/// Replaces the op by its parts while their lengths are at hand.
bool TypeInference::replace_now(OpId id) {
  const std::vector<Length>* known = shapes_.find(graph_.op(id).outputs[0]);
  const std::optional<std::vector<Length>> elements = known ? std::optional(*known) : std::nullopt;
  const std::vector<ValueId> made = replace_by_parts(module_, graph_, id, diags_, &shapes_);
  if (elements && !made.empty()) shapes_.set(made[0], *elements);
  return !made.empty();
}

/// Lowers the bounds of lengths that the op takes for others; false after reporting one that cannot be lowered.
bool TypeInference::agree_bounds(OpId id) {
  const OpView op(module_, graph_, graph_.op(id), &diags_);
  return std::ranges::all_of(loose_lengths(op), [&](const LooseLength& loose) {
    return (notes_ties_ && note_tie(loose)) || refuse_loose_length(op, loose);
  });
}

/// Notes a tie of a length, if it is new. Without it a buffer would be too small, so the request must have that length.
/// A dim that is tied to less than itself (n to n - 1) would be lowered again and again.
bool TypeInference::note_tie(const LooseLength& loose) {
  bool is_of_itself = false;
  for_each_name(Shape{loose.wanted}, [&](const std::string& name) { is_of_itself |= name == loose.length.text(); });
  if (!is_given(module_, loose.length) || is_of_itself) return false;
  if (loose.wanted.is_run_time() || !as_name(loose.length)) return shapes_.limit(loose.length, loose.wanted.bound);
  return pins_.emplace(loose.length.text(), loose.wanted.bound).second;
}

// The bound of the state that a value is written back to. A cache that grows is no longer than its state; a longer one
// is an error at run time.
std::optional<int64_t> TypeInference::state_bound(ValueId value, size_t axis) const {
  if (&graph_ != &module_.graph) return {};
  for (const State& state : module_.states)
    for (const Graph::Output& out : graph_.outputs()) {
      if (out.name != state.output || !(out.value == value)) continue;
      const Shape& shape = graph_.type(graph_.find_value(state.input)).shape;
      if (axis < shape.size()) return shape[axis].bound;  // a pair of two shapes is refused later
    }
  return {};
}

/// Types one op: regions first, then operands that became constants, then the record's rule; small integers are
/// folded at once, because types further down depend on them.
bool TypeInference::infer(OpId id) {
  if (op_def(graph_.op(id)).unfold) return unfold_op(typed_graph(), id);
  if (category(graph_.op(id)) == Category::Region) return infer_region(id);
  if (reads_unfolded(graph_, unfolded_, id)) return unfold_op(typed_graph(), id);
  return infer_with_operands(id);
}

bool TypeInference::infer_region(OpId id) {
  if (graph_.op(id).kind == OpKind::Scan) return make_loop(id);
  if (take_known_branch(id)) return true;
  return graph_.op(id).kind == OpKind::Loop ? infer_loop(id) : infer_rolled(id);
}

/// A Loop that cannot be typed as a loop is written out where that is possible.
bool TypeInference::infer_loop(OpId id) {
  if (carries_unfolded(graph_, unfolded_, id)) return unroll_loop(typed_graph(), id);
  if (!may_unroll(module_, graph_, id)) return infer_rolled(id);
  const Graph body = graph_.op(id).regions[0];
  const std::vector<ValueId> inputs = graph_.op(id).inputs;
  Diags found;
  TypeInference trial(module_, graph_, found, {});
  trial.is_trial_ = is_trial_;
  trial.shapes_ = shapes_, trial.untyped_ = untyped_, trial.unfolded_ = unfolded_;
  const bool is_typed = trial.infer_rolled(id);
  note_demands(trial.demands_);
  if (is_typed) {
    shapes_ = std::move(trial.shapes_);
    diags_.append(found);
    return true;
  }
  graph_.edit(id).regions[0] = body;
  while (!graph_.op(id).inputs.empty()) graph_.remove_input(id, graph_.op(id).inputs.size() - 1);
  for (const ValueId input : inputs) graph_.add_input(id, input);
  return unroll_loop(typed_graph(), id);
}

/// Types an op and its regions.
bool TypeInference::infer_rolled(OpId id) {
  if (!bring_in_captures(typed_graph(), id)) return false;
  std::vector<std::vector<Unfolded>> outputs;
  if (!infer_region_bodies(id, outputs)) return false;
  const bool is_unfolded = std::ranges::any_of(outputs, [](const std::vector<Unfolded>& branch) {
    return std::ranges::any_of(branch, [](const Unfolded& u) { return u.kind != Unfolded::Kind::Tensor; });
  });
  if (!is_unfolded) return infer_with_operands(id);
  const std::optional<OpId> made = unfold_results(typed_graph(), id, outputs);
  return made && infer_with_operands(*made);
}

bool TypeInference::infer_with_operands(OpId id) {
  if (!absorb_constants(module_, graph_, id, diags_)) return false;
  fit_reshaped(module_, graph_, id, shapes_);
  if (!infer_op(module_, graph_, id, &diags_, &shapes_)) return false;
  if (fit_counts(module_, graph_, id, shapes_) && !infer_op(module_, graph_, id, &diags_, &shapes_)) return false;
  if (!agree_bounds(id)) return false;
  bound_states(id);
  note_shape_values(id);
  if (fold_shape_values(id)) return true;
  if (is_typed_by_parts(id)) return replace_now(id);
  drop_shape_operands(module_, graph_, id);
  if (is_foldable(module_, graph_, id) && is_small(id) && is_shape_data(graph_, graph_.op(id)))
    fold_op(module_, graph_, id);
  return true;
}

}  // namespace

KnownLengths infer_graph(Module& module, Diags& diags, const KnownLengths& known, bool is_trial) {
  bound_inputs(module, known);
  TypeInference inference(module, module.graph, diags, known);
  if (is_trial) inference.begin_trial();
  inference.run();
  return inference.found();
}

}  // namespace weftc
