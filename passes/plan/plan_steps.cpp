// Walks the fused graph: a buffer for each value that lies in memory, a step for each op that does something.
#include <algorithm>

#include "ir/base/check.h"
#include "ir/exchange_types.h"
#include "ir/local_op.h"
#include "ir/op_def.h"
#include "passes/plan/plan_parts.h"
#include "passes/plan/signal_writer.h"

namespace weftc {

namespace {

/// The values of one graph.
struct Scope {
  const Graph& graph;
  std::vector<ValueMemory> held;  // by value index
  std::vector<Step>* steps;       // where the next step goes
  bool staged = false;            // the body of a pipeline: each stage has a block

  Scope(const Graph& g, std::vector<Step>& s) : graph(g), held(g.value_capacity()), steps(&s) {}
  ValueMemory& operator[](ValueId v) { return held[v.index]; }
};

class StepWriter {
 public:
  explicit StepWriter(PlanDraft& planning) : p_(planning), module_(planning.module) {}

  void run() {
    const Graph& graph = module_.graph;
    make_blocks();
    std::vector<Step> steps;
    Scope scope(graph, steps);
    scope.staged = module_.pipeline && module_.pipeline->micro_batches == 1;  // there is no Chunk then
    write(scope);
    if (!p_.diags.ok()) return;
    for (Block& block : p_.plan.blocks)
      if (!block.place) block.place = PlaceId{0};  // a stage of views that the kernels of others do has no steps
    for (Port& port : p_.plan.inputs)
      for (size_t d = 0; d < port.type.shape.size(); ++d)
        if (port.type.shape[d].count) port.counts[d] = scope[port.type.shape[d].count].buffer;
    for (const Graph::Output& output : graph.outputs()) add_output(scope, output);
    if (!module_.pipeline)
      p_.plan.blocks[0].steps = std::move(steps);
    else if (!steps.empty())
      p_.diags.error("pipeline-outside-unsupported", Loc::in_file(module_.file),
                     "'{}' depends on no micro-batch, and no stage can run it", steps[0].name);
  }

 private:
  /// One block, or one a stage.
  void make_blocks() {
    if (!module_.pipeline) {
      p_.plan.blocks.push_back({"run", PlaceId{0}, {}, false});
      p_.plan.order = {{0, 0}};
      return;
    }
    const Pipeline& pipeline = *module_.pipeline;
    p_.plan.micro_batches = pipeline.micro_batches;
    for (const std::string& stage : pipeline.stages) p_.plan.blocks.push_back({stage, PlaceId{}, {}, false});
    for (const Pipeline::Entry& entry : pipeline.order) p_.plan.order.push_back({entry.stage, entry.micro_batch});
  }

  /// The stage of an op of the pipeline's body: its own, else that of its operands.
  int stage_of(const Graph& graph, const Op& op) const {
    if (op.stage) return *op.stage;
    int stage = 0;
    for (ValueId v : op.inputs)
      if (v) stage = std::max(stage, stage_of(graph, graph.producer_op(v)));
    return stage;
  }

  Block& block_of(const Graph& graph, const Op& op) {
    Block& block = p_.plan.blocks[static_cast<size_t>(stage_of(graph, op))];
    if (!block.place) block.place = op.place;
    return block;
  }

  BufferId new_buffer(const std::string& name, const TensorType& type, const Mesh& mesh, PlaceId place) {
    Buffer buffer{name, type, mesh, place, 0, 1, false, Life::Run, {}, {}};
    const int64_t bytes = element_count(buffer.dims()) * dtype_bytes(type.dtype);
    buffer.bytes = std::max<int64_t>(1, (bytes + kBufferAlign - 1) / kBufferAlign) * kBufferAlign;
    p_.plan.buffers.push_back(std::move(buffer));
    return {static_cast<uint32_t>(p_.plan.buffers.size() - 1)};
  }

  Buffer& buffer(BufferId id) { return p_.plan.buffers[id.index]; }

  /// The place of a value's buffer: the first one, where the value has none.
  static PlaceId memory_place(const Graph& graph, ValueId v) {
    const PlaceId place = place_of(graph, v);
    return place ? place : PlaceId{0};
  }

  /// A buffer for a result, unless it is a region's, which has one already.
  BufferId result_buffer(Scope& scope, ValueId v) {
    ValueMemory& held = scope[v];
    if (held.buffer) return held.buffer;
    const PlaceId place = memory_place(scope.graph, v);
    const BufferId id = new_buffer(scope.graph.value(v).name, scope.graph.type(v), p_.mesh(scope.graph, place), place);
    if (!scope.graph.time_axes.empty()) buffer(id).life = scope.staged ? Life::MicroBatch : Life::Chunk;
    held = {id, {}, scope.graph.type(v)};
    return id;
  }

  /// A slice of `dim` of a type, as one of the buffer's dims (another one where a Reshape lies between them).
  bool part_digit(const TensorType& type, int axis, int size, const TensorType& memory, PartDigit& digit) const {
    const AxisState s = type.layout[axis];
    const Dims from = type.dims(), to = memory.dims();
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

  Access access(BufferId id, bool write, const TensorType& type, const std::vector<int>& whole, const Mesh& mesh) {
    Access made{id, write, {}, {}, false};
    for (int axis : whole) {
      PartDigit digit{};
      if (part_digit(type, axis, mesh[axis].size, buffer(id).type, digit)) made.part.push_back(digit);
    }
    return made;
  }

  Step new_step(const Op& op) const {
    Step step;
    step.name = op.name;
    step.origins = op.origins;
    if (op.transform) {
      step.transform = module_.transforms[op.transform.index].text;
      step.transform_loc = module_.transforms[op.transform.index].loc;
    }
    return step;
  }

  void write(Scope& scope) {
    for (OpId id = scope.graph.first(); id; id = scope.graph.next(id)) {
      const Op& op = scope.graph.op(id);
      if (scope.staged && category(op) != Category::Source) scope.steps = &block_of(scope.graph, op).steps;
      write_op(scope, op);
    }
  }

  void write_op(Scope& scope, const Op& op) {
    switch (op.kind) {
      case OpKind::Input:
        return write_input(scope, op);
      case OpKind::Constant:
        scope[op.outputs[0]] = {{}, op.constant("value"), scope.graph.type(op.outputs[0])};
        return;
      case OpKind::ExtentOf:
        result_buffer(scope, op.outputs[0]);
        return;  // written by whoever loads the input
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

  /// An input that is loaded in several places is one input of the model: that of the first copy.
  static std::string input_name(const Graph& graph, const Op& op) {
    for (ValueId v : graph.inputs())
      if (op.port && graph.producer_op(v).port == op.port) return graph.value(v).name;
    return graph.value(op.outputs[0]).name;
  }

  /// Parameters of regions are bound by their op.
  void write_input(Scope& scope, const Op& op) {
    const ValueId v = op.outputs[0];
    const bool parameter = &scope.graph != &p_.module.graph;  // one that the body does not read has no memory
    if (scope[v].buffer || scope[v].constant || parameter) return;
    const BufferId id = result_buffer(scope, v);
    Port port{input_name(scope.graph, op), scope.graph.type(v), buffer(id).mesh, buffer(id).place, id, {}};
    port.counts.resize(port.type.shape.size());
    p_.plan.inputs.push_back(std::move(port));
  }

  /// The same memory under another shape. A region's result has its buffer before it is made.
  void write_alias(Scope& scope, const Op& op) {
    if (!scope[op.outputs[0]].buffer) scope[op.outputs[0]] = scope[op.inputs[0]];
  }

  void write_launch(Scope& scope, const Op& op) {
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
    for (const RunExtent& extent : kernel.extents) {
      if (!extent.count) continue;
      const auto& inputs = kernel.body.inputs();
      const auto at = std::find(inputs.begin(), inputs.end(), extent.count);
      WEFT_CHECK(at != inputs.end(), "kernel '" + kernel.name + "' computes its own length");
      launch.extents.push_back(launch.operands[static_cast<size_t>(at - inputs.begin())]);
    }
    step.what = std::move(launch);
    scope.steps->push_back(std::move(step));
  }

  /// Of its peers' windows a rank touches the part that it keeps or brings: what stands in the layout on the other side
  /// of the collective.
  void add_exchanged_part(Access& made, const Kernel& kernel, size_t parameter) const {
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

  void write_collective(Scope& scope, const Op& op) {
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
    scope.steps->push_back(std::move(step));
  }

  /// The send stands in the block of the producer, the recv here.
  void write_transfer(Scope& scope, const Op& op) {
    const ValueId from = op.inputs[0], to = op.outputs[0];
    const Op& producer = scope.graph.producer_op(from);
    const BufferId target = result_buffer(scope, to);
    const int number = static_cast<int>(p_.plan.transfers.size());
    TransferTable table{op.name, scope[from].buffer, target, {}};
    table.messages =
        transfer_messages(module_, scope.graph, producer.place, scope.graph.type(from), op.place, scope.graph.type(to));
    buffer(table.from).window = true;
    Step send = new_step(op), recv = new_step(op);
    send.name = op.name + ".send", recv.name = op.name + ".recv";
    send.what = SendStep{number}, recv.what = RecvStep{number};
    send.stream = SignalWriter(p_.plan).stream("send");
    recv.stream = SignalWriter(p_.plan).stream("recv");
    send.accesses = {{table.from, false, {}, {}, false}};
    recv.accesses = {{target, true, {}, {}, false}};
    block_of(scope.graph, producer).steps.push_back(std::move(send));
    scope.steps->push_back(std::move(recv));
    p_.plan.transfers.push_back(std::move(table));
  }

  void add_copy(Scope& scope, const Op& op, const std::string& name, BufferId from, BufferId to,
                bool accumulate = false) {
    Step step = new_step(op);
    step.name = name;
    step.what = CopyStep{from, to};
    step.accesses = {{from, false, {}, {}, false}, {to, true, {}, {}, accumulate}};
    scope.steps->push_back(std::move(step));
  }

  /// Gives a result of a region the buffer of the op's result, at the value behind Reshapes that is made there.
  static void bind_result(Scope& body, ValueId v, const ValueMemory& held) {
    body[v] = held;
    while (body.graph.producer_op(v).kind == OpKind::Reshape) {
      v = body.graph.producer_op(v).inputs[0];
      body[v] = held;
    }
  }

  void write_chunk(Scope& scope, const Op& op) {
    const Graph& graph = op.regions[0];
    const bool pipeline = op.mechanism == Mechanism::Pipeline;
    Step step = new_step(op);
    ForStep loop{graph.time_axes.back().size, {}, op.mechanism};
    Scope body(graph, loop.body);
    body.staged = pipeline;
    for (size_t i = 0; i < op.inputs.size(); ++i) body[graph.inputs()[i]] = scope[op.inputs[i]];
    struct Total {
      ValueId part;
      BufferId buffer;
      ReduceOp op;
    };
    std::vector<Total> totals;
    for (size_t i = 0; i < op.outputs.size(); ++i) {
      result_buffer(scope, op.outputs[i]);
      const ValueId made = graph.outputs()[i].value;
      const int time =
          static_cast<int>(module_.place(memory_place(graph, made)).mesh.size() + graph.time_axes.size()) - 1;
      const AxisState state = graph.type(made).layout[time];
      if (!state.is(AxisState::Kind::P))
        bind_result(body, made, scope[op.outputs[i]]);
      else
        totals.push_back({made, scope[op.outputs[i]].buffer, state.op});
    }
    write(body);
    for (const auto& [made, total, reduce] : totals) {
      if (pipeline) body.steps = &block_of(graph, graph.producer_op(made)).steps;
      add_copy(body, op, graph.value(made).name + "." + reduce_name(reduce), body[made].buffer, total, true);
    }
    if (pipeline) return;
    step.what = std::move(loop);
    scope.steps->push_back(std::move(step));
  }

  void write_if(Scope& scope, const Op& op) {
    Step step = new_step(op);
    IfStep branch{scope[op.inputs[0]].buffer, {}, {}};
    step.accesses = {{branch.condition, false, {}, {}, false}};
    for (ValueId v : op.outputs) result_buffer(scope, v);
    for (int r = 0; r < 2; ++r) {
      const Graph& graph = op.regions[r];
      Scope body(graph, r == 0 ? branch.then_body : branch.else_body);
      for (size_t i = 1; i < op.inputs.size(); ++i) body[graph.inputs()[i - 1]] = scope[op.inputs[i]];
      for (size_t i = 0; i < op.outputs.size(); ++i) bind_result(body, graph.outputs()[i].value, scope[op.outputs[i]]);
      write(body);
    }
    step.what = std::move(branch);
    scope.steps->push_back(std::move(step));
  }

  void write_loop(Scope& scope, const Op& op) {
    const size_t carried = static_cast<size_t>(op.integer("carried"));
    if (op.outputs.size() != carried) {
      p_.diags.error("loop-scan-outputs-unsupported", module_.loc(op),
                     "a loop that collects an element a trip is not supported yet");
      return;
    }
    const Graph& graph = op.regions[0];
    Step step = new_step(op);
    LoopStep loop;
    Scope body(graph, loop.body);
    if (op.inputs[0]) {
      const ValueMemory& trips = scope[op.inputs[0]];
      const bool known = bool(trips.constant);
      if (known) loop.max_trips = p_.module.constants.tensor(trips.constant).int_at(0);
      loop.trip_count = trips.buffer;
      if (loop.trip_count) step.accesses.push_back({loop.trip_count, false, {}, {}, false});
    }
    const ValueId iteration = graph.inputs()[0];
    if (!graph.value(iteration).uses.empty()) {
      loop.iteration = result_buffer(body, iteration);
      step.accesses.push_back({loop.iteration, true, {}, {}, false});
    } else {
      body[iteration].type = graph.type(iteration);
    }
    bind_loop_values(scope, body, op, loop, step, carried);
    write(body);
    close_trip(body, op, loop, carried);
    step.what = std::move(loop);
    scope.steps->push_back(std::move(step));
  }

  /// Carried values live in the buffers of the loop's results; captures where they are.
  void bind_loop_values(Scope& scope, Scope& body, const Op& op, LoopStep& loop, Step& step, size_t carried) {
    const Graph& graph = op.regions[0];
    for (size_t i = 0; i < carried; ++i) {
      const BufferId to = result_buffer(scope, op.outputs[i]);
      add_copy(scope, op, scope.graph.value(op.outputs[i]).name + ".start", scope[op.inputs[2 + i]].buffer, to);
      body[graph.inputs()[2 + i]] = scope[op.outputs[i]];
    }
    for (size_t i = 2 + carried; i < op.inputs.size(); ++i) body[graph.inputs()[i]] = scope[op.inputs[i]];
    const ValueId inner = graph.inputs()[1], next = graph.outputs()[0].value;
    const bool constant = graph.producer_op(next).kind == OpKind::Constant || next == inner;
    if (!op.inputs[1] && constant) return;
    if (op.inputs[1] && scope[op.inputs[1]].constant && constant) return;
    loop.condition = result_buffer(body, inner);
    step.accesses.push_back({loop.condition, false, {}, {}, false});
    if (op.inputs[1] && scope[op.inputs[1]].buffer)
      add_copy(scope, op, op.name + ".condition", scope[op.inputs[1]].buffer, loop.condition);
  }

  /// What the next trip reads is copied at the end of a trip: until then this trip may read the old value.
  void close_trip(Scope& body, const Op& op, const LoopStep& loop, size_t carried) {
    const Graph& graph = op.regions[0];
    for (size_t i = 0; i < carried; ++i) {
      const BufferId from = body[graph.outputs()[1 + i].value].buffer, to = body[graph.inputs()[2 + i]].buffer;
      if (from != to) add_copy(body, op, graph.outputs()[1 + i].name + ".next", from, to);
    }
    if (!loop.condition) return;
    const BufferId next = body[graph.outputs()[0].value].buffer;
    if (next && next != loop.condition) add_copy(body, op, op.name + ".next", next, loop.condition);
  }

  void add_output(Scope& scope, const Graph::Output& output) {
    const ValueMemory& held = scope[output.value];
    WEFT_CHECK(bool(held.buffer), "output '" + output.name + "' is not in memory");
    const Buffer& at = buffer(held.buffer);
    Port port{output.name, scope.graph.type(output.value), at.mesh, at.place, held.buffer, {}};
    for (const Extent& e : port.type.shape) port.counts.push_back(e.count ? scope[e.count].buffer : BufferId{});
    p_.plan.outputs.push_back(std::move(port));
  }

  PlanDraft& p_;
  const Module& module_;
};

}  // namespace

void write_steps(PlanDraft& planning) { StepWriter(planning).run(); }

}  // namespace weftc
