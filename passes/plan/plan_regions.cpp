// Writes the steps that hold other steps. A Chunk becomes a For over its chunks, or the blocks of a pipeline's stages.
// An If becomes a step with two bodies, a Loop a step with the copies that carry values to the next iteration.
//
//   y = Loop(trips, cond, x0) { x -> x1, cond1 }
//     ->  copy x0 to y;  loop { steps that read y and make x1;  copy x1 to y }
#include "ir/base/check.h"
#include "passes/plan/step_writer.h"

namespace weftc {

namespace {

/// Gives a result of a region the buffer of the op's result. The same holds for the values before it that Reshapes only
/// view, down to the value that a step computes.
void bind_result(StepScope& body, ValueId v, const ValueMemory& held) {
  body[v] = held;
  while (body.graph.producer_op(v).kind == OpKind::Reshape) {
    v = body.graph.producer_op(v).inputs[0];
    body[v] = held;
  }
}

}  // namespace

/// Parameters lie where the operands do. A result that is sliced in time is written into its part of the whole; one
/// that is partial in time is added to a total as soon as it is made. In a pipeline the steps go into the blocks of its
/// ops.
void StepWriter::write_chunk(Scope& scope, const Op& op) {
  const Graph& graph = op.regions[0];
  const bool pipeline = op.mechanism == Mechanism::Pipeline;
  Step step = new_step(op);
  ForStep loop{graph.time_axes.back().size, {}, op.mechanism};
  loop.in_turn = op.integer_or("in_turn", 0) != 0;
  Scope body(graph, loop.body);
  body.staged = pipeline;
  for (size_t i = 0; i < op.inputs.size(); ++i) body[graph.inputs()[i]] = scope[op.inputs[i]];
  for (size_t i = 0; i < op.outputs.size(); ++i) {
    result_buffer(scope, op.outputs[i]);
    const ValueId made = graph.outputs()[i].value;
    const int time =
        static_cast<int>(module_.place(memory_place(graph, made)).mesh.size() + graph.time_axes.size()) - 1;
    const AxisState state = graph.type(made).layout[time];
    if (!state.is(AxisState::Kind::P))
      bind_result(body, made, scope[op.outputs[i]]);
    else
      body.totals[made].push_back({scope[op.outputs[i]].buffer, state.op});
  }
  write(body, &op);
  if (pipeline) return;
  step.what = std::move(loop);
  scope.steps->push_back(std::move(step));
}

/// Both branches write into the buffers of the op's results.
void StepWriter::write_if(Scope& scope, const Op& op) {
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

/// A trip count and a condition that are known need no memory; the others are read before each iteration.
void StepWriter::write_loop(Scope& scope, const Op& op) {
  const size_t carried = static_cast<size_t>(op.integer("carried"));
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
void StepWriter::bind_loop_values(Scope& scope, Scope& body, const Op& op, LoopStep& loop, Step& step, size_t carried) {
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

/// The values of the next trip are copied at the end of a trip: until then this trip may read the old ones.
void StepWriter::close_trip(Scope& body, const Op& op, LoopStep& loop, size_t carried) {
  const Graph& graph = op.regions[0];
  for (size_t i = 0; i < carried; ++i) {
    const BufferId from = body[graph.outputs()[1 + i].value].buffer, to = body[graph.inputs()[2 + i]].buffer;
    if (from != to) add_next(body, op, graph.outputs()[1 + i].name, from, to, loop);
  }
  if (!loop.condition) return;
  const BufferId next = body[graph.outputs()[0].value].buffer;
  if (next && next != loop.condition) add_next(body, op, op.name, next, loop.condition, loop);
}

void StepWriter::add_next(Scope& body, const Op& op, const std::string& name, BufferId from, BufferId to,
                          LoopStep& loop) {
  add_copy(body, op, name + ".next", from, to);
  loop.carried.push_back(to);
}

}  // namespace weftc
