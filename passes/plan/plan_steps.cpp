// Walks the fused graph: a buffer for each value that lies in memory, a step for each op that does something.
//
//   x = Input          ->  a port and its buffer
//   y = Fused(x, %w)   ->  a launch of an interned kernel, a buffer for y
//   r = Reshape(y)     ->  no step: r is the memory of y
//   s = AllReduce(r)   ->  a collective step; the buffers of r and s become windows, which peers read
//   t = Transfer(s)    ->  a send in the block of s, a recv in the block of t
//
// Steps are in the order of the graph, on no stream yet and without waits: order-steps adds those. Ops that hold others
// (Chunk, If, Loop) are in plan_regions.
#include <algorithm>

#include "ir/base/check.h"
#include "ir/exchange_types.h"
#include "ir/kernel/kernel_body.h"
#include "ir/local_op.h"
#include "passes/plan/signal_writer.h"
#include "passes/plan/step_writer.h"

namespace weftc {

namespace {

/// Finds the dim of the buffer in which a slice of the type lies as a digit: another dim than the type's, if a Reshape
/// lies between them. False if there is no such dim.
bool part_digit(const TensorType& type, int axis, int size, const TensorType& memory, PartDigit& digit) {
  const AxisState s = type.layout[axis];
  const Dims from = type.dims(), to = memory.dims();
  if (element_count(to) == 0) return false;
  int64_t step = s.block;
  for (size_t d = s.dim + 1; d < from.size(); ++d) step *= from[d];
  int64_t right = 1;
  for (int d = static_cast<int>(to.size()) - 1; d >= 0; right *= to[d], --d) {
    if (step % right || (right * to[d]) % (step * size)) continue;
    digit = {axis, d, step / right, size};
    return true;
  }
  return false;
}

/// The name of the model's input that an Input op loads: copies of it in several places have the name of the
/// first.
std::string input_name(const Graph& graph, const Op& op) {
  for (ValueId v : graph.inputs())
    if (op.port && graph.producer_op(v).port == op.port) return graph.value(v).name;
  return graph.value(op.outputs[0]).name;
}

}  // namespace

PlaceId memory_place(const Graph& graph, ValueId v) {
  const PlaceId place = place_of(graph, v);
  return place ? place : PlaceId{0};
}

/// The top graph, then outputs. With a pipeline, steps go into the blocks of their ops.
void StepWriter::run() {
  const Graph& graph = module_.graph;
  make_blocks();
  make_lengths();
  std::vector<Step> steps;
  Scope scope(graph, steps);
  scope.staged = module_.pipeline.has_value();
  write(scope);
  if (!p_.diags.ok()) return;
  for (Block& block : p_.plan.blocks)
    if (!block.place) block.place = PlaceId{0};  // a stage of views that the kernels of others do has no steps
  for (const Graph::Output& output : graph.outputs()) add_output(scope, output);
  if (!module_.pipeline) p_.plan.blocks[0].steps = std::move(steps);
}

/// Makes one block for all steps, or the blocks of a pipeline: those that run once before all micro-batches, those that
/// run for each, and those that run once after all.
void StepWriter::make_blocks() {
  if (!module_.pipeline) {
    p_.plan.blocks.push_back({"run", PlaceId{0}, {}});
    p_.plan.order = {{0, 0}};
    return;
  }
  const Pipeline& pipeline = *module_.pipeline;
  p_.plan.has_stages = true;
  p_.plan.micro_batches = pipeline.micro_batches;
  for (const Pipeline::Block& block : pipeline.blocks)
    p_.plan.blocks.push_back({block.name, PlaceId{}, {}, block.turn, block.phase, block.of_weights});
  const auto add_once = [&](Turn turn, int micro_batch) {
    for (size_t b = 0; b < pipeline.blocks.size(); ++b)
      if (pipeline.blocks[b].turn == turn) p_.plan.order.push_back({static_cast<int>(b), micro_batch});
  };
  add_once(Turn::Before, 0);
  for (const Pipeline::Entry& entry : pipeline.order) p_.plan.order.push_back({entry.block, entry.micro_batch});
  add_once(Turn::After, pipeline.micro_batches - 1);
}

/// The block of an op of the pipeline: its own, else the last of its operands'.
int StepWriter::number_of_block(const Graph& graph, const Op& op) const {
  if (op.block) return *op.block;
  int block = 0;
  for (ValueId v : op.inputs)
    if (v) block = std::max(block, number_of_block(graph, graph.producer_op(v)));
  return block;
}

/// The block of the op, which gets the op's place.
Block& StepWriter::block_of(const Graph& graph, const Op& op) {
  Block& block = p_.plan.blocks[static_cast<size_t>(number_of_block(graph, op))];
  if (!block.place) block.place = op.place;
  return block;
}

/// The block that sends the value of a Transfer: the block of its maker. A sum over the micro-batches is sent after all
/// of them, by the first block of the stage that has computed it.
Block& StepWriter::sending_block(const Graph& graph, const Op& transfer) {
  const Op& maker = graph.producer_op(transfer.inputs[0]);
  if (maker.kind != OpKind::Chunk || maker.mechanism != Mechanism::Pipeline) return block_of(graph, maker);
  const Graph& body = maker.regions[0];
  const ValueId total = body.outputs()[graph.value(transfer.inputs[0]).result].value;
  const std::vector<Pipeline::Block>& blocks = module_.pipeline->blocks;
  const Pipeline::Block& summing = blocks[static_cast<size_t>(number_of_block(body, body.producer_op(total)))];
  const Pipeline::Block& receiving = blocks[static_cast<size_t>(number_of_block(graph, transfer))];
  const auto sends = [&](const Pipeline::Block& block) {
    return block.turn == Turn::After && block.stage == summing.stage && block.phase == receiving.phase;
  };
  const auto found = std::find_if(blocks.begin(), blocks.end(), sends);
  WEFT_CHECK(found != blocks.end(), "no block sends '" + transfer.name + "'");
  Block& block = p_.plan.blocks[static_cast<size_t>(found - blocks.begin())];
  if (!block.place) block.place = memory_place(graph, transfer.inputs[0]);
  return block;
}

/// Adds a buffer of one instance for a value's local part, aligned. A buffer inside of a loop gets more instances
/// later.
BufferId StepWriter::new_buffer(const std::string& name, const TensorType& type, const Mesh& mesh, PlaceId place) {
  Buffer buffer{name, type, mesh, place, 0, 1, false, Life::Run, {}, {}};
  const int64_t bytes = element_count(buffer.dims()) * dtype_bytes(type.dtype);
  buffer.bytes = std::max<int64_t>(1, (bytes + kBufferAlign - 1) / kBufferAlign) * kBufferAlign;
  p_.plan.buffers.push_back(std::move(buffer));
  return {static_cast<uint32_t>(p_.plan.buffers.size() - 1)};
}

/// The buffer of a result; a result of a region has one already (bind_result).
BufferId StepWriter::result_buffer(Scope& scope, ValueId v) {
  ValueMemory& held = scope[v];
  if (held.buffer) return held.buffer;
  const PlaceId place = memory_place(scope.graph, v);
  const BufferId id = new_buffer(scope.graph.value(v).name, scope.graph.type(v), p_.mesh(scope.graph, place), place);
  if (!scope.graph.time_axes.empty()) buffer(id).life = scope.staged ? Life::MicroBatch : Life::Chunk;
  held = {id, {}, scope.graph.type(v)};
  return id;
}

/// The part of a buffer that a step touches: all of it, or the part of the current chunk where the memory holds every
/// chunk.
Access StepWriter::access(BufferId id, bool write, const TensorType& type, const std::vector<int>& whole,
                          const Mesh& mesh) {
  Access made{id, write, {}, {}, false};
  for (int axis : whole) {
    PartDigit digit{};
    if (part_digit(type, axis, mesh[axis].size, buffer(id).type, digit)) made.part.push_back(digit);
  }
  return made;
}

/// A step with the op's name, origins and the schedule entry that made it.
Step StepWriter::new_step(const Op& op) const {
  Step step;
  step.name = op.name;
  step.origins = op.origins;
  if (op.transform) {
    step.transform = module_.transforms[op.transform.index].text;
    step.transform_loc = module_.transforms[op.transform.index].loc;
  }
  return step;
}

/// Writes the ops of a graph in order, each into its block if there are several. Partial sums of a chunk do not outlive
/// it: each is added to its total where it is made.
void StepWriter::write(Scope& scope, const Op* chunk) {
  for (OpId id = scope.graph.first(); id; id = scope.graph.next(id)) {
    const Op& op = scope.graph.op(id);
    const bool holds_all = op.kind == OpKind::Chunk && op.mechanism == Mechanism::Pipeline;
    if (scope.staged && category(op) != Category::Source && !holds_all) scope.steps = &block_of(scope.graph, op).steps;
    write_op(scope, op);
    for (ValueId v : op.outputs)
      if (const auto totals = scope.totals.find(v); totals != scope.totals.end())
        for (const auto& [total, reduce] : totals->second) {
          add_copy(scope, *chunk, scope.graph.value(v).name + "." + reduce_name(reduce), scope[v].buffer, total, true);
          scope.steps->back().origins = op.origins;
        }
  }
}

void StepWriter::write_op(Scope& scope, const Op& op) {
  switch (op.kind) {
    case OpKind::Input:
      return write_input(scope, op);
    case OpKind::Constant:
      scope[op.outputs[0]] = {{}, op.constant("value"), scope.graph.type(op.outputs[0])};
      return;
    case OpKind::Reshape:
      return write_alias(scope, op);
    case OpKind::Fused:
      return write_launch(scope, op);
    case OpKind::Chunk:
      return write_chunk(scope, op);
    case OpKind::If:
      return write_if(scope, op);
    case OpKind::Loop:
      return write_loop(scope, op);
    default:
      break;
  }
  WEFT_CHECK(category(op) == Category::Collective, "'" + op.name + "' stands outside the kernels");
  if (op.kind == OpKind::Transfer) return write_transfer(scope, op);
  write_collective(scope, op);
}

/// Parameters of regions are bound by their op.
void StepWriter::write_input(Scope& scope, const Op& op) {
  const ValueId v = op.outputs[0];
  const bool parameter = &scope.graph != &p_.module.graph;  // one that the body does not read has no memory
  if (scope[v].buffer || scope[v].constant || parameter) return;
  const BufferId id = result_buffer(scope, v);
  p_.plan.inputs.push_back({input_name(scope.graph, op), scope.graph.type(v), buffer(id).mesh, buffer(id).place, id});
}

/// Gives an alias the memory of its operand. A region's result has its buffer before it is made.
void StepWriter::write_alias(Scope& scope, const Op& op) {
  if (!scope[op.outputs[0]].buffer) scope[op.outputs[0]] = scope[op.inputs[0]];
}

/// A launch binds the kernel's parameters: weights for constants, buffers for all else. Equal kernels are one.
void StepWriter::write_launch(Scope& scope, const Op& op) {
  std::vector<ValueMemory> held;
  for (ValueId v : op.inputs) held.push_back(scope[v]);
  for (ValueId v : op.outputs) result_buffer(scope, v), held.push_back(scope[v]);
  Step step = new_step(op);
  const KernelId id = intern_kernel(p_, scope.graph, op, held);
  const Kernel& kernel = p_.plan.kernel(id);
  LaunchStep launch{id, {}, {}};
  for (size_t f = 0; f < held.size(); ++f) {
    const Parameter& parameter = kernel.parameters[f];
    if (held[f].constant) {
      launch.operands.push_back({{}, intern_weight(p_, held[f], kernel, f)});
      continue;
    }
    launch.operands.push_back({held[f].buffer, {}});
    if (parameter.window) buffer(held[f].buffer).window = true;
    Access made = access(held[f].buffer, f >= op.inputs.size(), parameter.type, parameter.whole_over, kernel.mesh);
    if (parameter.window) {
      made.peers = exchange_axes(kernel.body);
      add_exchanged_part(made, kernel, f);
    }
    step.accesses.push_back(std::move(made));
  }
  // Equal layers share a kernel, whose lengths have the names of the first.
  for (const RunExtent& extent : run_extents_of(module_, op.regions[0], kernel.mesh)) {
    if (!extent.is_named()) continue;
    launch.lengths.push_back(length_buffer(extent.length->text(), op.place));
    step.accesses.push_back({launch.lengths.back(), false, {}, {}, false});
  }
  note_made_lengths(op, launch);
  step.what = std::move(launch);
  if (runs_beside(scope, op)) step.stream = SignalWriter(p_.plan).stream("comm");
  scope.steps->push_back(std::move(step));
}

/// Adds the part of its peers' windows that a rank touches. It is the slice that the rank keeps or brings, in the
/// layout on the other side of the collective.
void StepWriter::add_exchanged_part(Access& made, const Kernel& kernel, size_t parameter) const {
  const Graph& body = kernel.body;
  const size_t inputs = body.inputs().size();
  OpId id;
  if (parameter >= inputs)
    id = body.producer(body.outputs()[parameter - inputs].value);
  else if (!body.value(body.inputs()[parameter]).uses.empty())
    id = body.value(body.inputs()[parameter]).uses[0].op;
  if (!id || category(body.op(id)) != Category::Collective) return;
  const Op& op = body.op(id);
  const TensorType& type = body.type(parameter >= inputs ? op.inputs[0] : op.outputs[0]);
  for (int axis : axes_of(op)) {
    PartDigit digit{};
    if (type.layout[axis].is(AxisState::Kind::S) &&
        part_digit(type, axis, kernel.mesh[axis].size, p_.plan.buffer(made.buffer).type, digit))
      made.part.push_back(digit);
  }
}

/// A collective step, with the types between which memory is exchanged; buffers that peers read become windows.
void StepWriter::write_collective(Scope& scope, const Op& op) {
  const ValueId from = op.inputs[0], to = op.outputs[0];
  const ValueMemory source = scope[from];
  WEFT_CHECK(bool(source.buffer),
             "'" + op.name + "' reads '" + scope.graph.value(from).name + "', which has no buffer");
  const BufferId target = result_buffer(scope, to);
  CollectiveStep what{};
  what.kind = op.kind;
  if (op.has("reduce")) what.reduce = *parse_reduce(op.text("reduce"));
  what.root = static_cast<int>(op.integer_or("root", 0));
  what.axes = axes_of(op);
  what.place = op.place;
  what.mesh = p_.mesh(scope.graph, op.place);
  what.from = source.buffer;
  what.to = target;
  ExchangeTypes types = exchange_types(op, scope.graph.type(from), scope.graph.type(to), what.mesh);
  what.from_type = std::move(types.from);
  what.to_type = std::move(types.to);
  const int place_axes = static_cast<int>(module_.place(op.place).mesh.size());
  const int mesh_axes = static_cast<int>(what.mesh.size());
  what.from_whole_over = whole_over(scope.graph.type(from), source.type, place_axes, mesh_axes);
  what.to_whole_over = whole_over(scope.graph.type(to), scope[to].type, place_axes, mesh_axes);
  Step step = new_step(op);
  step.accesses = {access(source.buffer, false, what.from_type, what.from_whole_over, what.mesh),
                   access(target, true, what.to_type, what.to_whole_over, what.mesh)};
  if (op.kind != OpKind::ShardSlice) {
    step.accesses[0].peers = what.axes;
    buffer(source.buffer).window = true;
    if (op.kind == OpKind::AllReduce) {
      step.accesses[1].peers = what.axes;
      buffer(target).window = true;
    }
  }
  step.what = std::move(what);
  if (runs_beside(scope, op)) step.stream = SignalWriter(p_.plan).stream("comm");
  scope.steps->push_back(std::move(step));
}

/// In loops and branches a collective runs in turn.
bool StepWriter::runs_beside(const Scope& scope, const Op& op) const {
  return op.mechanism == Mechanism::Beside && &scope.graph == &module_.graph;
}

/// The send is in the block of the producer, the recv in that of the reader. The sender's buffer is a window.
void StepWriter::write_transfer(Scope& scope, const Op& op) {
  const ValueId from = op.inputs[0], to = op.outputs[0];
  const PlaceId from_place = memory_place(scope.graph, from);
  const BufferId target = result_buffer(scope, to);
  const int number = static_cast<int>(p_.plan.transfers.size());
  TransferTable table{op.name, scope[from].buffer, target, {}};
  table.messages =
      transfer_messages(module_, scope.graph, from_place, scope.graph.type(from), op.place, scope.graph.type(to));
  buffer(table.from).window = true;
  Step send = new_step(op), recv = new_step(op);
  send.name = op.name + ".send", recv.name = op.name + ".recv";
  send.what = SendStep{number}, recv.what = RecvStep{number};
  send.stream = SignalWriter(p_.plan).stream("send");
  recv.stream = SignalWriter(p_.plan).stream("recv");
  send.accesses = {{table.from, false, {}, {}, false}};
  recv.accesses = {{target, true, {}, {}, false}};
  sending_block(scope.graph, op).steps.push_back(std::move(send));
  scope.steps->push_back(std::move(recv));
  p_.plan.transfers.push_back(std::move(table));
}

/// A copy of a whole buffer, or with `accumulate` a chunk's part added to a total.
void StepWriter::add_copy(Scope& scope, const Op& op, const std::string& name, BufferId from, BufferId to,
                          bool accumulate) {
  Step step = new_step(op);
  step.name = name;
  step.what = CopyStep{from, to};
  step.accesses = {{from, false, {}, {}, false}, {to, true, {}, {}, accumulate}};
  scope.steps->push_back(std::move(step));
}

void StepWriter::add_output(Scope& scope, const Graph::Output& output) {
  const ValueMemory& held = scope[output.value];
  WEFT_CHECK(bool(held.buffer), "output '" + output.name + "' is not in memory");
  const Buffer& at = buffer(held.buffer);
  p_.plan.outputs.push_back({output.name, scope.graph.type(output.value), at.mesh, at.place, held.buffer});
}

void write_steps(PlanDraft& planning) { StepWriter(planning).run(); }

}  // namespace weftc
