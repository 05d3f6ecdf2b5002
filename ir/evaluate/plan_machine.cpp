// Executes one step of a Plan on the bytes of the ranks: launches, copies, collectives, transfers.
#include "ir/evaluate/plan_machine.h"

#include <algorithm>
#include <cstring>

#include "ir/base/check.h"
#include "ir/base/contains.h"
#include "ir/base/text.h"
#include "ir/exchange_types.h"
#include "ir/plan_walk.h"

namespace weftc {

namespace {

constexpr std::byte kPoison{0xff};  // NaN in every float type, -1 in integers
const Storage kByBounds{{}, true};

}  // namespace

PlanMachine::PlanMachine(const Plan& plan, int64_t invocation)
    : plan_(plan), invocation_(invocation), ranks_(plan.world) {
  module_.name = plan.name;
  module_.places = plan.places;
  module_.origins = plan.origins;
  module_.seed = plan.seed;
  for (uint32_t c = 0; c < plan.constants->size(); ++c) {
    const Constant& constant = (*plan.constants)[ConstantId{c}];
    module_.constants.add_view(constant.name, constant.dtype, constant.dims, constant.bytes);
  }
  for (const Program& program : plan.programs)
    for (int rank : program.ranks) {
      ranks_[rank].own.assign(static_cast<size_t>(program.own_bytes + program.thread_bytes), kPoison);
      ranks_[rank].window.assign(static_cast<size_t>(program.window_bytes), kPoison);
      ranks_[rank].program = &program;
    }
}

int64_t PlanMachine::RowPart::offset(const Operand& operand) const {
  int64_t offset = 0;
  if (!of || of->own.contains(operand.buffer)) return offset;
  const auto add = [&](const auto& strides, auto id, int64_t rows) {
    if (const auto at = strides.find(id); at != strides.end()) offset += rows * *number_of(at->second, lengths);
  };
  for (size_t a = 0; a < of->axes.size(); ++a) {
    add(of->axes[a].strides, operand.buffer, first[a]);
    add(of->axes[a].weight_strides, operand.weight, first[a]);
  }
  return offset;
}

std::byte* PlanMachine::address(int rank, BufferId id, const Now& now) {
  const Buffer& buffer = plan_.buffer(id);
  int64_t instance = 0;
  if (buffer.depth > 1)
    instance = buffer.life == Life::MicroBatch ? now.micro_batch : now.time.empty() ? 0 : now.time.back();
  Rank& at = ranks_[rank];
  return (buffer.window ? at.window : at.own).data() + at.program->positions[id.index].offset +
         instance % buffer.depth * buffer.bytes + now.rows.offset({id, {}}) * dtype_bytes(buffer.type.dtype);
}

PlanMachine::Spread PlanMachine::spread(const TensorType& type, const std::vector<int>& whole, const Mesh& mesh,
                                        const Coordinates& at, const Dims& lengths, const Storage& storage) const {
  TensorType memory = type;
  for (int axis : whole) memory.layout.set(axis, {});
  return spread(type, std::move(memory), mesh, at, lengths, lengths, storage);
}

PlanMachine::Spread PlanMachine::spread(const Parameter& parameter, const Mesh& mesh, const Coordinates& at,
                                        const std::map<std::string, int64_t>& known) const {
  TensorType memory = parameter.memory_type();
  for (int axis : parameter.whole_over) memory.layout.set(axis, {});
  const Dims lengths = lengths_of(parameter.type.shape, known), room = lengths_of(memory.shape, known);
  return spread(parameter.type, std::move(memory), mesh, at, lengths, room, parameter.storage);
}

PlanMachine::Spread PlanMachine::spread(const TensorType& type, TensorType memory, const Mesh& mesh,
                                        const Coordinates& at, const Dims& lengths, const Dims& held_lengths,
                                        const Storage& storage) const {
  Dims room = buffer_dims(memory, mesh);
  for (int d = 0; d < type.ndim(); ++d)
    if (memory.shape[d].is_run_time() && !storage.by_bounds)
      room[d] = local_extent(held_lengths[d], digits_of(memory.layout, d, mesh), at);
  const std::optional<Stripe>& stripe = storage.stripe;
  if (stripe) room[static_cast<size_t>(stripe->dim)] = stripe->extent;
  Spread made{{}, {}, strides_of(room)};
  for (int d = 0; d < type.ndim(); ++d) {
    const int64_t extent = type.shape[d].bound;
    const std::vector<int64_t> held = held_indices(extent, digits_of(type.layout, d, mesh), at);
    const std::vector<int64_t> all = held_indices(extent, digits_of(memory.layout, d, mesh), at);
    std::vector<int64_t> positions;
    for (int64_t index : held)
      if (index < lengths[d]) positions.push_back(std::lower_bound(all.begin(), all.end(), index) - all.begin());
    for (int64_t& position : positions) position += stripe && stripe->dim == d ? stripe->start : 0;
    made.dims.push_back(static_cast<int64_t>(positions.size()));
    made.at.push_back(std::move(positions));
  }
  return made;
}

bool PlanMachine::fits(BufferId id, const Spread& spread, DType dtype, const Now& now) {
  int64_t last = now.rows.offset({id, {}});
  for (size_t d = 0; d < spread.dims.size(); ++d) {
    if (spread.dims[d] == 0) return true;
    last += spread.at[d].back() * spread.strides[d];
  }
  if ((last + 1) * dtype_bytes(dtype) <= plan_.buffer(id).bytes) return true;
  error = format("'{}' is too small", plan_.buffer(id).name);
  return false;
}

Tensor PlanMachine::read(int rank, BufferId id, const Spread& from, DType dtype, const Now& now) {
  Tensor tensor(dtype, from.dims);
  if (!fits(id, from, dtype, now)) return tensor;
  const int64_t size = dtype_bytes(dtype);
  std::vector<std::byte> bytes(static_cast<size_t>(tensor.size() * size));
  const std::byte* base = address(rank, id, now);
  for (Index at(from.dims); at.more(); at.next()) {
    int64_t element = 0;
    for (size_t d = 0; d < from.dims.size(); ++d)
      element += from.at[d][static_cast<size_t>(at[static_cast<int>(d)])] * from.strides[d];
    std::memcpy(bytes.data() + at.linear() * size, base + element * size, static_cast<size_t>(size));
  }
  return tensor_from_bytes(dtype, from.dims, bytes);
}

void PlanMachine::write(int rank, BufferId id, const Spread& to, const Tensor& tensor, const Now& now) {
  if (!fits(id, to, tensor.dtype, now)) return;
  if (tensor.dims != to.dims) {
    error = format("'{}' takes {} elements, not {}", plan_.buffer(id).name, dims_text(to.dims), dims_text(tensor.dims));
    return;
  }
  const std::vector<std::byte> bytes = tensor_to_bytes(tensor);
  const int64_t size = dtype_bytes(tensor.dtype);
  std::byte* base = address(rank, id, now);
  for (Index at(to.dims); at.more(); at.next()) {
    int64_t element = 0;
    for (size_t d = 0; d < to.dims.size(); ++d)
      element += to.at[d][static_cast<size_t>(at[static_cast<int>(d)])] * to.strides[d];
    std::memcpy(base + element * size, bytes.data() + at.linear() * size, static_cast<size_t>(size));
  }
}

int64_t PlanMachine::number(int rank, BufferId id, const Now& now) {
  return read(rank, id, {{}, {}, {}}, plan_.buffer(id).type.dtype, now).int_at(0);
}

void PlanMachine::put_number(int rank, BufferId id, int64_t value, const Now& now) {
  Tensor tensor(plan_.buffer(id).type.dtype, {});
  tensor.put_int(0, value);
  write(rank, id, {{}, {}, {}}, tensor, now);
}

void PlanMachine::load(const Port& port, const Tensor& global) {
  const Locals locals = scatter(global, port.type, port.mesh);
  // Leading dims hold the separate copies of ranks.
  const Dims lengths(global.dims.end() - port.type.ndim(), global.dims.end());
  const Place& place = plan_.places[port.place.index];
  for (int i = 0; i < place.size(); ++i) {
    const Storage& storage = plan_.buffer(port.buffer).storage;
    const Spread to = spread(port.type, {}, port.mesh, coordinates_of(place.mesh, i), lengths, storage);
    write(place.ranks[i], port.buffer, to, locals[static_cast<size_t>(i)], {});
  }
  for (int d = 0; d < port.type.ndim(); ++d)
    if (const Extent& extent = port.type.shape[d]; extent.is_run_time()) load(extent.length->text(), lengths[d]);
}

void PlanMachine::load(const std::string& length, int64_t number) {
  for (const LengthBuffer& each : plan_.lengths)
    for (int rank : place(each.place).ranks)
      if (each.name == length) put_number(rank, each.buffer, number, {});
}

Tensor PlanMachine::assemble_port(const Port& port, const Shape& shape) {
  std::map<std::string, int64_t> known;
  for (const LengthBuffer& length : plan_.lengths)
    known[length.name] = number(place(length.place).ranks[0], length.buffer, {});
  const Dims lengths = lengths_of(shape, known);
  const Place& place = plan_.places[port.place.index];
  Locals locals;
  for (int i = 0; i < place.size(); ++i) {
    const Storage& storage = plan_.buffer(port.buffer).storage;
    const Spread from = spread(port.type, {}, port.mesh, coordinates_of(place.mesh, i), lengths, storage);
    locals.push_back(read(place.ranks[i], port.buffer, from, port.type.dtype, {}));
  }
  std::string why;
  std::optional<Tensor> global = assemble(locals, port.type, port.mesh, why);
  if (!global) error = format("output '{}': {}", port.name, why);
  return global ? *global : Tensor(port.type.dtype, port.type.dims());
}

Tensor PlanMachine::weight_part(int rank, WeightId id, const Spread& from, DType dtype, const Now& now) {
  const Weight& weight = plan_.weight(id);
  auto at = weights_.find(id.index);
  if (at == weights_.end()) {
    Tensor whole = module_.constants.tensor(weight.constant);
    whole.dims = weight.type.dims();
    at = weights_.emplace(id.index, scatter(whole, weight.type, plan_.places[weight.place.index].mesh)).first;
  }
  const Tensor& local = at->second[static_cast<size_t>(place(weight.place).index_of(rank))];
  const Dims strides = strides_of(local.dims);  // the memory of a weight is its local slice
  Tensor part(dtype, from.dims);
  for (Index i(from.dims); i.more(); i.next()) {
    int64_t element = now.rows.offset({{}, id});
    for (size_t d = 0; d < from.dims.size(); ++d)
      element += from.at[d][static_cast<size_t>(i[static_cast<int>(d)])] * strides[d];
    part.copy_element(i.linear(), local, element);
  }
  return part;
}

/// The dims of a shape: bounds, or the run-time lengths.
Dims PlanMachine::lengths_of(const Shape& shape, const std::map<std::string, int64_t>& known) {
  Dims lengths = bounds(shape);
  for (size_t d = 0; d < shape.size(); ++d)
    if (shape[d].is_run_time())
      lengths[d] = std::clamp<int64_t>(number_of(*shape[d].length, known).value_or(0), 0, lengths[d]);
  return lengths;
}

std::map<std::string, int64_t> PlanMachine::lengths_of(int rank) {
  std::map<std::string, int64_t> known;
  for (const LengthBuffer& length : plan_.lengths)
    if (contains(place(length.place).ranks, rank)) known[length.name] = number(rank, length.buffer, {});
  return known;
}

/// The named lengths of a kernel, as a launch passes them. Lengths that the kernel computes are not among them.
std::map<std::string, int64_t> PlanMachine::lengths_of(int rank, const LaunchStep& step, const Now& now) {
  std::map<std::string, int64_t> lengths;
  size_t next = 0;
  for (const RunExtent& extent : plan_.kernel(step.kernel).extents) {
    if (!extent.is_named()) continue;
    const BufferId length = step.lengths[next++];
    lengths[extent.length->text()] =
        length ? number(rank, length, now) : now.rows.count[*row_axis(*now.rows.of, *extent.length)];
  }
  return lengths;
}

/// The operands of a launch on all ranks of the place. The values matter only for the runner and for what it reads in
/// its peers' windows. For other ranks only the shapes count.
void PlanMachine::read_operands(int runner, const LaunchStep& step, const Now& now,
                                const std::map<std::string, int64_t>& known, std::vector<Locals>& locals) {
  const Kernel& kernel = plan_.kernel(step.kernel);
  const Place& place = plan_.places[kernel.place.index];
  const std::vector<int> peers = rank_group(place, exchange_axes(kernel.body), runner);
  for (size_t f = 0; f < kernel.body.inputs().size(); ++f) {
    const Parameter& parameter = kernel.parameters[f];
    Locals values;
    for (int i = 0; i < place.size(); ++i) {
      Coordinates at = coordinates_of(place.mesh, i);
      at.insert(at.end(), now.time.begin(), now.time.end());
      const Spread from = spread(parameter, kernel.mesh, at, known);
      // Lengths are the runner's for all ranks, so that the other ranks' operands have a shape.
      const int rank = parameter.type.ndim() == 0 && !parameter.window ? runner : place.ranks[i];
      const bool reads = rank == runner || (parameter.window && contains(peers, rank));
      if (step.operands[f].weight)
        values.push_back(weight_part(rank, step.operands[f].weight, from, parameter.type.dtype, now));
      else
        values.push_back(reads ? read(rank, step.operands[f].buffer, from, parameter.type.dtype, now)
                               : Tensor(parameter.type.dtype, from.dims));
    }
    locals.push_back(std::move(values));
  }
}

void PlanMachine::launch(int rank, const LaunchStep& step, const Now& now) {
  const Kernel& kernel = plan_.kernel(step.kernel);
  std::vector<Locals> operands;
  Evaluation evaluation{module_, {}, {plan_.seed, now.trip, invocation_}, lengths_of(rank, step, now), {}};
  read_operands(rank, step, now, evaluation.lengths, operands);
  if (!error.empty()) return;
  Frame frame(evaluation, kernel.body, now.time);
  std::vector<const Locals*> bound;
  for (const Locals& l : operands) bound.push_back(&l);
  frame.bind_inputs(bound);
  if (!frame.run(false)) {
    error = evaluation.error;
    return;
  }
  store_results(rank, step, now, evaluation.lengths, frame);
}

void PlanMachine::store_results(int rank, const LaunchStep& step, const Now& now,
                                const std::map<std::string, int64_t>& known, Frame& frame) {
  const Kernel& kernel = plan_.kernel(step.kernel);
  const size_t inputs = kernel.body.inputs().size(), self = static_cast<size_t>(place(kernel.place).index_of(rank));
  Coordinates at = place_coordinates(kernel.place, rank);
  at.insert(at.end(), now.time.begin(), now.time.end());
  for (size_t o = 0; o < kernel.body.outputs().size(); ++o) {
    const Parameter& parameter = kernel.parameters[inputs + o];
    const Tensor& mine = frame.output(o)[self];
    if (parameter.window) {
      store_gathered(rank, step, o, now, known, mine);
      continue;
    }
    const Spread to = spread(parameter, kernel.mesh, at, known);
    write(rank, step.operands[inputs + o].buffer, to, mine, now);
  }
}

/// Writes the rank's own slice of a window result to all its peers, and they write theirs in turn. A result that no
/// gather produces is written to the rank's own memory only.
void PlanMachine::store_gathered(int rank, const LaunchStep& step, size_t output, const Now& now,
                                 const std::map<std::string, int64_t>& known, const Tensor& mine) {
  const Kernel& kernel = plan_.kernel(step.kernel);
  const Graph& body = kernel.body;
  const size_t inputs = body.inputs().size();
  const Parameter& parameter = kernel.parameters[inputs + output];
  const Op& last = body.producer_op(body.outputs()[output].value);
  Coordinates at = place_coordinates(kernel.place, rank);
  at.insert(at.end(), now.time.begin(), now.time.end());
  const bool gathers = last.kind == OpKind::AllGather;
  const TensorType& slice = gathers ? body.type(last.inputs[0]) : parameter.type;
  const Dims lengths = lengths_of(parameter.type.shape, known);
  // Position of the rank's own slice in the result, and in the memory of each peer.
  TensorType whole = parameter.type;
  const Spread in_result =
      spread(slice, gathers ? exchange_axes(body) : std::vector<int>{}, kernel.mesh, at, lengths, kByBounds);
  std::vector<int> axes = parameter.whole_over;
  if (gathers)
    for (int axis : exchange_axes(body)) axes.push_back(axis);
  const Spread in_memory = spread(slice, axes, kernel.mesh, at, lengths, kByBounds);
  Tensor part(mine.dtype, in_result.dims);
  const Dims strides = strides_of(mine.dims);
  for (Index i(in_result.dims); i.more(); i.next()) {
    int64_t element = 0;
    for (size_t d = 0; d < in_result.dims.size(); ++d)
      element += in_result.at[d][static_cast<size_t>(i[static_cast<int>(d)])] * strides[d];
    part.copy_element(i.linear(), mine, element);
  }
  const BufferId buffer = step.operands[inputs + output].buffer;
  if (!gathers) return write(rank, buffer, in_memory, part, now);
  for (int peer : rank_group(place(kernel.place), exchange_axes(body), rank)) write(peer, buffer, in_memory, part, now);
}

PlanMachine::Spread PlanMachine::whole(const Dims& dims) {
  Spread all{dims, {}, strides_of(dims)};
  for (int64_t extent : dims) {
    all.at.emplace_back();
    for (int64_t i = 0; i < extent; ++i) all.at.back().push_back(i);
  }
  return all;
}

/// A buffer as [outer, rows, elements of a row]; the middle dimension covers the part's rows.
PlanMachine::Spread PlanMachine::rows_of(BufferId buffer, const Now& now) const {
  const RowAxis& axis = now.rows.of->axes.front();
  const int64_t stride = axis.strides.at(buffer).constant(), all = element_count(plan_.buffer(buffer).dims());
  Spread part = whole({all / (axis.count.constant() * stride), now.rows.count.front(), stride});
  part.strides = {axis.count.constant() * stride, stride, 1};
  return part;
}

void PlanMachine::copy(int rank, const CopyStep& step, const std::vector<Access>& accesses, const Now& now) {
  if (step.is_empty()) return;
  const Buffer& from = plan_.buffer(step.from);
  const Spread all = now.rows.of ? rows_of(step.from, now) : whole(from.dims());
  Tensor value = read(rank, step.from, all, from.type.dtype, now);
  const bool adds = std::any_of(accesses.begin(), accesses.end(), [](const Access& a) { return a.accumulate; });
  if (adds && !now.time.empty() && now.time.back() > 0) {
    Tensor sum = read(rank, step.to, all, from.type.dtype, now);
    const int time = static_cast<int>(from.mesh.size()) - 1;
    for (int64_t i = 0; i < sum.size(); ++i) accumulate(sum, i, value, i, from.type.layout[time].op);
    value = std::move(sum);
  }
  write(rank, step.to, all, value, now);
}

/// The tensors of the ranks at `targets` of the step's mesh after the collective.
static Locals exchanged(const std::vector<const Tensor*>& sources, const std::vector<int>& targets,
                        const CollectiveStep& step) {
  if (!has_root(step.kind)) return reshard_some(sources, step.from_type, step.to_type, step.mesh, targets, step.reduce);
  std::vector<const Tensor*> group(sources.size(), nullptr);
  for (int target : targets) group[static_cast<size_t>(target)] = sources[static_cast<size_t>(target)];
  const Rooted rooted{step.kind, {step.axes.begin(), step.axes.end()}, step.root, step.reduce};
  return exchange_rooted(group, step.from_type, rooted, step.mesh);
}

/// An exchange of dense memory moves all rows up to the bound; the rows of the actual length come first.
void PlanMachine::exchange(const std::vector<int>& ranks, const CollectiveStep& step, const Now& now) {
  const Place& place = plan_.places[step.place.index];
  std::vector<Tensor> held(static_cast<size_t>(place.size()));
  std::vector<const Tensor*> sources(static_cast<size_t>(mesh_size(step.mesh)), nullptr);
  std::vector<int> targets;
  std::vector<Coordinates> at;
  for (int i = 0; i < place.size(); ++i) {
    Coordinates c = coordinates_of(place.mesh, i);
    c.insert(c.end(), now.time.begin(), now.time.end());
    const Spread from = spread(step.from_type, step.from_whole_over, step.mesh, c, step.from_type.dims(), kByBounds);
    const bool here = contains(ranks, place.ranks[i]);
    held[i] = here ? read(place.ranks[i], step.from, from, step.from_type.dtype, now)
                   : Tensor(step.from_type.dtype, from.dims);
    sources[static_cast<size_t>(index_of(step.mesh, c))] = &held[i];
    if (here) targets.push_back(index_of(step.mesh, c)), at.push_back(c);
  }
  if (!error.empty()) return;
  const Locals results = exchanged(sources, targets, step);
  for (size_t r = 0; r < ranks.size(); ++r) {
    const Spread to = spread(step.to_type, step.to_whole_over, step.mesh, at[r], step.to_type.dims(), kByBounds);
    write(ranks[r], step.to, to, results[r], now);
  }
}

void PlanMachine::pull(int rank, const TransferTable& table, const Now& now) {
  const int64_t size = dtype_bytes(plan_.buffer(table.from).type.dtype);
  for (const Message& m : table.messages) {
    if (m.to != rank) continue;
    const std::byte* from = address(m.from, table.from, now);
    std::byte* to = address(rank, table.to, now);
    for (Index i(m.extents); i.more(); i.next())
      std::memcpy(to + (m.target + i.dot(m.target_strides)) * size, from + (m.source + i.dot(m.source_strides)) * size,
                  static_cast<size_t>(size));
  }
}

}  // namespace weftc
