// Runs the ops of one graph on all ranks, one op after the other. Every layout, chunking and Plan is compared with its
// results. It applies layouts and never decides them: evaluate_layout.cpp says which rank holds which element.
#include "ir/evaluate/evaluate_frame.h"

#include <algorithm>

#include "ir/base/check.h"
#include "ir/base/text.h"
#include "ir/exchange_types.h"
#include "ir/local_op.h"

namespace weftc {

Frame::Frame(Evaluation& evaluation, const Graph& graph, Coordinates time)
    : run_(evaluation),
      graph_(graph),
      time_(std::move(time)),
      values_(graph.value_capacity(), nullptr),
      owned_(graph.value_capacity()),
      readers_left_(graph.value_capacity(), 0) {
  for (OpId id = graph.first(); id; id = graph.next(id))
    for (ValueId v : graph.op(id).outputs) readers_left_[v.index] = graph.value(v).uses.size();
}

void Frame::store(ValueId value, Locals locals) {
  owned_[value.index] = std::make_unique<Locals>(std::move(locals));
  values_[value.index] = owned_[value.index].get();
}

bool Frame::make_constant(ValueId value) {
  if (!value || values_[value.index] || graph_.producer_op(value).kind != OpKind::Constant) return true;
  return run_constant(graph_.producer_op(value));
}

void Frame::release_operands(const Op& op) {
  for (ValueId v : op.inputs) {
    if (!v || --readers_left_[v.index] > 0) continue;
    owned_[v.index].reset();
    values_[v.index] = nullptr;
  }
}

void Frame::bind_inputs(const std::vector<const Locals*>& locals) {
  WEFT_CHECK(locals.size() == graph_.inputs().size(), "a region's parameters do not match its op");
  for (size_t i = 0; i < locals.size(); ++i) bind(graph_.inputs()[i], locals[i]);
}

bool Frame::fail(const Op& op, const std::string& what) {
  if (run_.error.empty()) run_.error = format("'{}' ({}): {}", op.name, op_def(op).name, what);
  return false;
}

Coordinates Frame::coordinates(PlaceId place, int rank) const {
  Coordinates at = coordinates_of(rank_mesh(place), rank);
  at.insert(at.end(), time_.begin(), time_.end());
  return at;
}

bool Frame::run(bool observe) {
  for (OpId id = graph_.first(); id; id = graph_.next(id)) {
    const Op& op = graph_.op(id);
    const bool show = observe && run_.observe;
    if (op.kind == OpKind::Constant && !show) continue;
    const bool has_operands =
        std::all_of(op.inputs.begin(), op.inputs.end(), [&](ValueId v) { return make_constant(v); });
    if (!has_operands || (op.kind != OpKind::Input && !run_op(op))) return false;
    if (op.kind == OpKind::NameLength) run_.lengths[op.text("name")] = locals(op.outputs[0])[0].int_at(0);
    for (ValueId value : op.outputs)
      if (show) run_.observe(graph_, value, locals(value));
    release_operands(op);
  }
  for (const Graph::Output& out : graph_.outputs())
    if (!make_constant(out.value)) return false;
  return true;
}

bool Frame::run_op(const Op& op) {
  switch (category(op)) {
    case Category::Region:
      return run_region(op);
    case Category::Collective:
      return op.kind == OpKind::Transfer ? run_transfer(op) : run_collective(op);
    default:
      return op.kind == OpKind::Constant ? run_constant(op) : run_local(op);
  }
}

/// Pointers to each rank's tensor.
static std::vector<const Tensor*> pointers(const Locals& locals) {
  std::vector<const Tensor*> to;
  for (const Tensor& tensor : locals) to.push_back(&tensor);
  return to;
}

Locals Frame::reshard_now(const std::vector<const Tensor*>& ranks, PlaceId place, const TensorType& from,
                          const TensorType& to, ReduceOp varying) const {
  const Mesh axes = mesh(place);
  std::vector<const Tensor*> sources(mesh_size(axes), nullptr);
  std::vector<int> targets;
  for (size_t rank = 0; rank < ranks.size(); ++rank) {
    targets.push_back(index_of(axes, coordinates(place, static_cast<int>(rank))));
    sources[targets.back()] = ranks[rank];
  }
  return reshard_some(sources, from, to, axes, targets, varying);
}

bool Frame::run_constant(const Op& op) {
  const ValueId value = op.outputs[0];
  const TensorType& type = graph_.type(value);
  const Tensor whole = run_.module.constants.tensor(op.constant("value"));
  const int ranks = mesh_size(rank_mesh(op.place));
  if (type.layout.is_replicated()) return store(value, Locals(ranks, whole)), true;
  // Each rank has the whole value, from which it takes its part at any time.
  const TensorType everywhere{type.dtype, type.shape, {}};
  store(value, reshard_now(std::vector<const Tensor*>(ranks, &whole), op.place, everywhere, type, ReduceOp::Sum));
  return true;
}

bool Frame::run_local(const Op& op) {
  if (!op_def(op).eval) return fail(op, "has no reference evaluation");
  const int ranks = mesh_size(rank_mesh(op.place));
  for (ValueId v : op.inputs)
    if (v && static_cast<int>(locals(v).size()) != ranks) return fail(op, "an operand is in another place");
  std::vector<Locals> results(op.outputs.size(), Locals(ranks));
  for (int rank = 0; rank < ranks; ++rank)
    if (!run_rank(op, rank, results)) return false;
  for (size_t r = 0; r < results.size(); ++r) store(op.outputs[r], std::move(results[r]));
  return true;
}

std::optional<Dims> Frame::run_time_dims(const Op& op, const TensorType& type, const Mesh& mesh,
                                         const Coordinates& at) {
  Dims dims = local_dims(type, mesh, at);
  for (int d = 0; d < type.ndim(); ++d) {
    if (!type.shape[d].is_run_time()) continue;
    const std::optional<int64_t> length = number_of(*type.shape[d].length, run_.lengths);
    if (!length)
      return fail(op, format("the length '{}' of dimension {} is not known", type.shape[d].length->text(), d)),
             std::nullopt;
    if (*length < 0 || *length > type.shape[d].bound)
      return fail(op, format("dimension {} has length {}, its bound is {}", d, *length, type.shape[d].bound)),
             std::nullopt;
    dims[d] = local_extent(*length, digits_of(type.layout, d, mesh), at);
  }
  return dims;
}

void Frame::hold_indices(const TensorType& type, const Mesh& mesh, const Coordinates& at,
                         std::vector<std::vector<int64_t>>& held) const {
  held.assign(type.ndim(), {});
  if (!type.layout.has(AxisState::Kind::S)) return;
  for (int d = 0; d < type.ndim(); ++d) {
    const std::vector<Digit> digits = digits_of(type.layout, d, mesh);
    if (!digits.empty()) held[d] = held_indices(global_extent(type.shape[d]), digits, at);
  }
}

int64_t Frame::global_extent(const Extent& extent) const {
  if (!extent.is_run_time()) return extent.bound;
  return std::clamp<int64_t>(number_of(*extent.length, run_.lengths).value_or(extent.bound), 0, extent.bound);
}

Dims Frame::global_dims(const TensorType& type, const Mesh& mesh, const Dims& local) const {
  Dims dims = type.dims();
  for (int d = 0; d < type.ndim(); ++d)
    if (type.shape[d].is_run_time())
      dims[d] = digits_of(type.layout, d, mesh).empty() ? local[d] : global_extent(type.shape[d]);
  return dims;
}

bool Frame::run_rank(const Op& op, int rank, std::vector<Locals>& results) {
  const Mesh axes = mesh(op.place);
  const Coordinates at = coordinates(op.place, rank);
  std::vector<Tensor> made(op.outputs.size());
  std::optional<Op> local;
  if (needs_localize(graph_, op)) local = localize(run_.module, graph_, op, at);
  EvalContext context{local ? *local : op, {}, {}, {}, made, run_.random, {}, {}, {}, {}, &run_.lengths};
  const bool positions = category(op) != Category::Pointwise;
  for (ValueId v : op.inputs) {
    context.inputs.push_back(v ? &locals(v)[rank] : nullptr);
    if (!positions) continue;
    context.held_inputs.emplace_back();
    context.global_input_dims.emplace_back();
    if (!v) continue;
    hold_indices(graph_.type(v), axes, at, context.held_inputs.back());
    context.global_input_dims.back() = global_dims(graph_.type(v), axes, context.inputs.back()->dims);
  }
  for (ValueId v : op.outputs) {
    const TensorType& type = graph_.type(v);
    const std::optional<Dims> dims = run_time_dims(op, type, axes, at);
    if (!dims) return false;
    context.result_dims.push_back(*dims);
    context.result_dtypes.push_back(type.dtype);
    if (!positions) continue;
    hold_indices(type, axes, at, context.held_results.emplace_back());
    context.global_dims.push_back(global_dims(type, axes, *dims));
  }
  op_def(op).eval(context);
  for (size_t r = 0; r < made.size(); ++r) {
    if (made[r].dims != context.result_dims[r] || made[r].dtype != context.result_dtypes[r])
      return fail(
          op, format("result {} is {} {} where its type says {} {}", r, dtype_name(made[r].dtype),
                     dims_text(made[r].dims), dtype_name(context.result_dtypes[r]), dims_text(context.result_dims[r])));
    results[r][rank] = std::move(made[r]);
  }
  return true;
}

bool Frame::run_collective(const Op& op) {
  const Locals& operand = locals(op.inputs[0]);
  if (static_cast<int>(operand.size()) != mesh_size(rank_mesh(op.place)))
    return fail(op, "the operand is in another place");
  const std::optional<ReduceOp> reduce = parse_reduce(op.has("reduce") ? op.text("reduce") : "sum");
  if (!reduce) return fail(op, "unknown reduction");
  const TensorType& result = graph_.type(op.outputs[0]);
  const ExchangeTypes types = exchange_types(op, graph_.type(op.inputs[0]), result, mesh(op.place));
  if (has_root(op.kind)) {
    const Rooted rooted{op.kind, op.ints("axes"), static_cast<int>(op.integer("root")), *reduce};
    store(op.outputs[0], exchange_rooted(pointers(operand), types.from, rooted, mesh(op.place)));
    return true;
  }
  if (!joins_tensors(op)) {
    store(op.outputs[0], reshard_now(pointers(operand), op.place, types.from, types.to, *reduce));
    return true;
  }
  // The same elements under the dimensions of the joined tensor, and back.
  Locals parts = operand;
  for (size_t rank = 0; rank < parts.size(); ++rank)
    parts[rank].dims = local_dims(types.from, mesh(op.place), coordinates(op.place, static_cast<int>(rank)));
  Locals made = reshard_now(pointers(parts), op.place, types.from, types.to, *reduce);
  for (Tensor& tensor : made) tensor.dims = result.dims();
  store(op.outputs[0], std::move(made));
  return true;
}

/// The type with R on the axes of its place. Its states of time come after `axes` axes of another place.
static TensorType only_time(const TensorType& type, size_t own_axes, size_t axes) {
  TensorType time{type.dtype, type.shape, {}};
  for (int a = static_cast<int>(own_axes); a < type.layout.size(); ++a)
    time.layout.set(a - static_cast<int>(own_axes) + static_cast<int>(axes), type.layout[a]);
  return time;
}

bool Frame::run_transfer(const Op& op) {
  const PlaceId from = place_of(graph_, op.inputs[0]);
  const TensorType &type = graph_.type(op.inputs[0]), &to = graph_.type(op.outputs[0]);
  if (type.layout.has(AxisState::Kind::P) || type.layout.has(AxisState::Kind::V))
    return fail(op, "a partial or varying value cannot be sent");
  const size_t own_axes = rank_mesh(from).size(), axes = rank_mesh(op.place).size();
  const Locals gathered =
      reshard_now(pointers(locals(op.inputs[0])), from, type, only_time(type, own_axes, own_axes), ReduceOp::Sum);
  const std::vector<const Tensor*> sources(mesh_size(rank_mesh(op.place)), &gathered[0]);
  store(op.outputs[0], reshard_now(sources, op.place, only_time(type, own_axes, axes), to, ReduceOp::Sum));
  return true;
}

}  // namespace weftc
