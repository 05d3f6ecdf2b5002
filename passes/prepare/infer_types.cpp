// Types every value, in order, and brings operands that shapes depend on into attributes.
//
//   %s = Shape(%x)                              %y = Reshape(%x) {shape = [8, 64]} : f32[8, 64]
//   %y = Reshape(%x, %s2)  with %s2 from %s ->
//
// Exporters compute shapes with Shape, Gather and Concat: integers are folded here, as soon as they are known, because
// the types behind them need the values. An If on a known condition is replaced by its branch.
#include <algorithm>
#include <cmath>

#include "ir/base/contains.h"
#include "ir/builder.h"
#include "ir/op_def.h"
#include "ir/shape_arithmetic.h"
#include "passes/passes.h"
#include "passes/prepare/check_states.h"
#include "passes/prepare/fold.h"
#include "passes/prepare/replace_by_parts.h"
#include "passes/prepare/scan_to_loop.h"
#include "passes/prepare/unfold_sequences.h"
#include "passes/prepare/unroll_loop.h"

namespace weftc {

namespace {

// Folding larger tensors here would only slow the pass down: no shape has so many dimensions.
constexpr int64_t kLargestShapeData = 1 << 16;

/// Types one graph; regions get one of their own.
class TypeInference {
 public:
  TypeInference(Module& module, Graph& graph, Diags& diags, ShapeValues limits = {})
      : module_(module), graph_(graph), diags_(diags), shapes_(std::move(limits)) {}

  /// What each output of the graph stood for.
  std::vector<Unfolded> run() {
    infer_range(graph_.first(), {});
    return unfold_outputs(graph_, unfolded_);
  }
  /// What the states say of lengths.
  ShapeValues limits() const { return shapes_.limits(); }

 private:
  void infer_range(OpId first, OpId end);
  bool infer(OpId id);
  bool infer_region(OpId id);
  bool infer_loop(OpId id);
  bool infer_rolled(OpId id);
  bool infer_with_operands(OpId id);
  bool infer_region_bodies(OpId id, std::vector<std::vector<Unfolded>>& outputs);
  bool absorb_constants(OpId id);
  bool absorb(OpId id, const ConstantOperand& operand);
  bool take_known_branch(OpId id);
  bool make_loop(OpId id);
  void bound_states(OpId id);
  void drop_shape_operands(OpId id);
  void trim_operands(OpId id);
  void note_shape_values(OpId id);
  bool is_typed_by_parts(OpId id) const;
  bool replace_now(OpId id);
  std::optional<int64_t> state_bound(ValueId value, size_t axis) const;
  bool is_small(OpId id) const;
  TypedGraph typed_graph() {
    return {module_, graph_, unfolded_, diags_, [this](OpId first, OpId end) { infer_range(first, end); }};
  }

  // One error is enough: what depends on a value without a type is passed over.
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
};

/// Types the ops from `first` up to `end`; they may be replaced meanwhile.
void TypeInference::infer_range(OpId first, OpId end) {
  for (OpId id = first; id && !(id == end);) {
    const OpId next = graph_.next(id);
    if (graph_.op(id).kind != OpKind::Input && (has_untyped_operand(id) || !infer(id))) mark_untyped(id);
    id = next;
  }
}

/// A constant's elements as an attribute of the given type.
AttrValue as_attr(const Tensor& tensor, AttrType type) {
  if (type == AttrType::Int) return tensor.int_at(0);
  if (type == AttrType::Real) return tensor.at(0);
  std::vector<int64_t> ints;
  std::vector<double> reals;
  for (int64_t i = 0; i < tensor.size(); ++i)
    if (type == AttrType::Reals)
      reals.push_back(tensor.at(i));
    else
      ints.push_back(tensor.int_at(i));
  return type == AttrType::Reals ? AttrValue(reals) : AttrValue(ints);
}

/// True if each element lies in the range of an int64, which NaN and infinities do not.
bool are_in_range(const Tensor& tensor) {
  return std::ranges::all_of(tensor.real, [](double x) { return std::abs(x) < 0x1p63; });
}

/// Copies one operand that became a constant into its attribute (ConstantOperand), if that can hold it.
bool TypeInference::absorb(OpId id, const ConstantOperand& operand) {
  const Op& op = graph_.op(id);
  if (operand.input >= static_cast<int>(op.inputs.size()) || !op.inputs[operand.input]) return true;
  const std::optional<Tensor> tensor = OpView(module_, graph_, op, &diags_).known(operand.input);
  const bool is_of_integers = operand.type == AttrType::Int || operand.type == AttrType::Ints;
  if (!tensor || (is_of_integers && !are_in_range(*tensor))) return true;
  const bool single = operand.type == AttrType::Int || operand.type == AttrType::Real;
  if (single && tensor->size() != 1)
    return OpView(module_, graph_, op, &diags_)
        .fail("operand-not-scalar", "operand {} must have one element, not {}", operand.input, tensor->size());
  graph_.edit(id).set(operand.attr, as_attr(*tensor, operand.type));
  return true;
}

/// An operand may become several attributes: it is taken away when all have been set.
bool TypeInference::absorb_constants(OpId id) {
  const std::vector<ConstantOperand>& operands = op_def(graph_.op(id)).constant_operands;
  for (const ConstantOperand& operand : operands)
    if (!absorb(id, operand)) return false;
  for (const ConstantOperand& operand : operands) {
    const Op& op = graph_.op(id);
    const bool is_there = operand.input < static_cast<int>(op.inputs.size()) && op.inputs[operand.input];
    if (!is_there || !op.has(operand.attr)) continue;
    if (graph_.producer_op(op.inputs[operand.input]).kind != OpKind::Constant) continue;
    module_.note_folded(graph_, op.inputs[operand.input], op.name);
    graph_.set_input(id, operand.input, {});
  }
  trim_operands(id);
  return true;
}

/// Takes away absent operands behind the last one that is there, but for those that the op always has.
void TypeInference::trim_operands(OpId id) {
  const auto least = static_cast<size_t>(op_def(graph_.op(id)).inputs.min);
  while (graph_.op(id).inputs.size() > least && !graph_.op(id).inputs.back())
    graph_.remove_input(id, graph_.op(id).inputs.size() - 1);
}

/// True if the results are so small that shapes may depend on them.
bool TypeInference::is_small(OpId id) const {
  const Op& op = graph_.op(id);
  return std::all_of(op.outputs.begin(), op.outputs.end(),
                     [&](ValueId v) { return graph_.type(v).count() <= kLargestShapeData; });
}

/// True for integers, and for a few reals: what shape chains compute with.
bool is_shape_data(const Graph& graph, const Op& op) {
  return std::all_of(op.outputs.begin(), op.outputs.end(),
                     [&](ValueId v) { return !is_float(graph.type(v).dtype) || graph.type(v).count() <= 16; });
}

// The parameters of If's branches are all operands but the condition; of Loop's body: the iteration, then the operands
// without the trip count.
bool TypeInference::infer_region_bodies(OpId id, std::vector<std::vector<Unfolded>>& outputs) {
  const int errors = diags_.errors();
  const bool loop = graph_.op(id).kind == OpKind::Loop;
  const size_t carried = loop ? static_cast<size_t>(graph_.op(id).integer_or("carried", 0)) : 0;
  for (Graph& region : graph_.edit(id).regions) {
    ShapeValues shapes = shapes_.limits();
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
        shapes.set(region.inputs()[p], *known);
    }
    outputs.push_back(TypeInference(module_, region, diags_, std::move(shapes)).run());
  }
  return diags_.errors() == errors;
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

/// Gives what becomes a state the state's bound.
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

/// Takes away the operands that gave an op its shape: the types of its results and its attributes say it now.
void TypeInference::drop_shape_operands(OpId id) {
  for (const ConstantOperand& operand : op_def(graph_.op(id)).constant_operands) {
    const Op& op = graph_.op(id);
    const bool is_there = operand.input < static_cast<int>(op.inputs.size()) && op.inputs[operand.input];
    if (is_there && operand.required && op.has(operand.attr)) graph_.set_input(id, operand.input, {});
  }
  trim_operands(id);
}

/// What the op computes, where that is shape arithmetic.
void TypeInference::note_shape_values(OpId id) {
  const Op& op = graph_.op(id);
  std::optional<std::vector<std::vector<Length>>> values = shape_values(OpView(module_, graph_, op, nullptr, &shapes_));
  for (size_t r = 0; values && r < values->size(); ++r) shapes_.set(op.outputs[r], std::move((*values)[r]));
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

// The bound of the state that a value is written back to: a cache that grows is no longer than its state; a
// longer one is an error at run time.
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
  TypeInference trial(module_, graph_, found, shapes_);
  trial.untyped_ = untyped_, trial.unfolded_ = unfolded_;
  if (trial.infer_rolled(id)) {
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
  if (!absorb_constants(id)) return false;
  if (!infer_op(module_, graph_, id, &diags_, &shapes_)) return false;
  bound_states(id);
  note_shape_values(id);
  if (is_typed_by_parts(id)) return replace_now(id);
  drop_shape_operands(id);
  if (is_foldable(module_, graph_, id) && is_small(id) && is_shape_data(graph_, graph_.op(id)))
    fold_op(module_, graph_, id);
  return true;
}

bool has_growing_state(const Module& module) {
  return std::any_of(module.states.begin(), module.states.end(), [&](const State& state) {
    return !is_static(module.graph.type(module.graph.find_value(state.input)).shape);
  });
}

/// How long the next values of states are at most: as long as the states. Such a length may come up before the cache
/// grows (a mask of past + seq rows), when nothing says so yet; therefore all types are inferred as a trial first.
ShapeValues limits_of_states(Module& module) {
  if (!has_growing_state(module)) return {};
  const Graph graph = module.graph;
  const auto folded = module.folded;
  const auto unread = module.unread;
  const auto lengths = module.lengths;
  ShapeValues limits, before;
  do {
    before = limits;
    Diags discarded;
    TypeInference trial(module, module.graph, discarded, before);
    trial.run();
    limits = trial.limits();
    module.graph = graph;
    module.folded = folded;
    module.unread = unread;
    module.lengths = lengths;
  } while (!(limits == before));
  return limits;
}

}  // namespace

void infer_types(Module& module, const Env& env) {
  const bool has_outputs = !module.graph.outputs().empty();
  TypeInference(module, module.graph, env.diags, limits_of_states(module)).run();
  if (env.diags.ok() && has_outputs && module.graph.outputs().empty())
    env.diags.error("outputs-empty-unsupported", Loc::in_file(module.file),
                    "all outputs of the model are sequences and optionals without an element");
  if (env.diags.ok()) check_states(module, env.diags);
}

}  // namespace weftc
