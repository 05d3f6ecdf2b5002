// Conditions that a Plan must meet on its own: sizes, bounds, collectives that fit their buffers. Then the proof over
// its events.
#include "passes/proof/prove_plan.h"

#include <algorithm>
#include <map>
#include <set>

#include "ir/base/contains.h"
#include "ir/kernel/kernel_scratch.h"
#include "ir/plan_events.h"
#include "ir/plan_walk.h"
#include "ir/text/plan_text.h"
#include "passes/plan/loop_rows.h"
#include "passes/proof/prove_memory.h"

namespace weftc {

namespace {

using Kind = AxisState::Kind;
constexpr size_t kMostShown = 20;

class Checks {
 public:
  explicit Checks(const Plan& plan) : plan_(plan), users_(buffer_users(plan)) {}

  std::vector<std::string> run() {
    check_positions();
    check_weights();
    if (plan_.micro_batches > 1) trips_ = {plan_.micro_batches};
    for (const Block& block : plan_.blocks) check_steps(block.steps);
    check_order();
    for (const TransferTable& table : plan_.transfers) check_transfer(table);
    check_launches();
    return std::move(wrong_);
  }

 private:
  template <class... Arguments>
  void wrong(std::string_view pattern, const Arguments&... arguments) {
    wrong_.push_back(format(pattern, arguments...));
  }

  /// Checks that every kernel is launched by all its users. Without this, a missing loop would leave its initial value
  /// to be read.
  void check_launches() {
    std::set<std::pair<uint32_t, std::string>> launched;
    for (const Block& block : plan_.blocks)
      for_each_step(block.steps, [&](const Step& step) {
        if (const auto* launch = std::get_if<LaunchStep>(&step.what)) launched.emplace(launch->kernel.index, step.name);
      });
    for (uint32_t k = 0; k < plan_.kernels.size(); ++k)
      for (const std::string& user : plan_.kernels[k].users)
        if (!launched.contains({k, user})) wrong("kernel '{}' is not launched by '{}'", plan_.kernels[k].name, user);
  }

  void check_positions() {
    for (const Program& program : plan_.programs) {
      for (size_t b = 0; b < plan_.buffers.size(); ++b) {
        const Buffer& buffer = plan_.buffers[b];
        const Position& position = program.positions[b];
        if (position.kind == Position::Kind::Absent) continue;
        const int64_t end = position.offset + buffer.bytes * buffer.depth;
        const bool is_of_thread = position.kind == Position::Kind::OfThread;
        if (is_of_thread != (buffer.life == Life::Block) || (is_of_thread && position.offset < program.own_bytes))
          wrong("buffer '{}' of blocks of rows is not in memory of threads", buffer.name);
        const int64_t own_bytes = program.own_bytes + (is_of_thread ? program.thread_bytes : 0);
        if (position.offset < 0 || end > (buffer.window ? program.window_bytes : own_bytes))
          wrong("buffer '{}' ends at {}, after its memory", buffer.name, end);
        check_symbolic(program, buffer, position);
        const Position& first = plan_.programs[0].positions[b];
        if (buffer.window && first.kind != Position::Kind::Absent && first.offset != position.offset)
          wrong("window '{}' lies at {} and at {} in two programs", buffer.name, first.offset, position.offset);
      }
      const int64_t peak = needed_bytes(plan_, program);
      if (plan_.target.memory && peak > plan_.target.memory)
        wrong("rank {} needs {} bytes of {}", program.ranks[0], peak, plan_.target.memory);
    }
  }

  void check_symbolic(const Program& program, const Buffer& buffer, const Position& position) {
    int64_t offset = 0;
    if (position.kind == Position::Kind::OfThread) {
      if (position.of && program.positions[position.of.index].offset != position.offset)
        wrong("buffer '{}' of blocks of rows is not where '{}' lies", buffer.name, plan_.buffer(position.of).name);
      return;
    }
    if (position.kind != Position::Kind::Start) {
      const Buffer& of = plan_.buffer(position.of);
      offset = program.positions[position.of.index].offset;
      if (position.kind == Position::Kind::EndOf) offset += of.bytes * of.depth;
      if (of.window != buffer.window) wrong("buffer '{}' is placed by one in another memory", buffer.name);
    }
    if (offset != position.offset)
      wrong("buffer '{}' is at {}, its position says {}", buffer.name, position.offset, offset);
  }

  void check_weights() {
    int64_t end = 0;
    for (const Weight& weight : plan_.weights) {
      if (weight.offset < end) wrong("weight '{}' overlaps the one before it", weight.name);
      end = weight.offset + weight.bytes;
      if (end > plan_.segments[weight.segment].end) wrong("weight '{}' ends after its segment", weight.name);
    }
  }

  int first_of(Turn turn) const { return turn == Turn::After ? plan_.micro_batches - 1 : 0; }
  int last_of(Turn turn) const { return turn == Turn::Before ? 0 : plan_.micro_batches - 1; }

  void check_order() {
    std::set<std::pair<int, int>> seen;
    for (const OrderedBlock& entry : plan_.order)
      if (!seen.insert({entry.block, entry.micro_batch}).second)
        wrong("block '{}' runs micro-batch {} twice", plan_.blocks[entry.block].name, entry.micro_batch);
    for (int b = 0; b < static_cast<int>(plan_.blocks.size()); ++b)
      for (int m = first_of(plan_.blocks[b].turn); m <= last_of(plan_.blocks[b].turn); ++m)
        if (!seen.contains({b, m})) wrong("block '{}' never runs micro-batch {}", plan_.blocks[b].name, m);
  }

  /// Global position of an element of a rank's buffer; -1 past its end, or if the rank has no such buffer.
  int64_t global_position(const Buffer& buffer, int rank, int64_t local) const {
    const Place& place = plan_.places[buffer.place.index];
    if (!place.holds(rank) || local < 0) return -1;
    Coordinates coordinates = coordinates_of(place.mesh, place.index_of(rank));
    coordinates.resize(buffer.mesh.size(), 0);
    const Dims dims = buffer.dims(), strides = strides_of(dims), global = strides_of(buffer.type.dims());
    if (local >= element_count(dims)) return -1;
    int64_t position = 0;
    for (int d = 0; d < buffer.type.ndim(); ++d) {
      const std::vector<int64_t> held =
          held_indices(buffer.type.shape[d].bound, digits_of(buffer.type.layout, d, buffer.mesh), coordinates);
      const int64_t index = local / strides[d] % dims[d];
      if (index >= static_cast<int64_t>(held.size())) return -1;
      position += held[static_cast<size_t>(index)] * global[d];
    }
    return position;
  }

  /// How many elements of a buffer the rank really holds.
  int64_t held_elements(const Buffer& buffer, int rank) const {
    const Place& place = plan_.places[buffer.place.index];
    Coordinates coordinates = coordinates_of(place.mesh, place.index_of(rank));
    coordinates.resize(buffer.mesh.size(), 0);
    return element_count(local_dims(buffer.type, buffer.mesh, coordinates));
  }

  /// Both ends of each message refer to the same global elements, and all messages to a rank together cover its slice.
  void check_transfer(const TransferTable& table) {
    const Buffer &from = plan_.buffer(table.from), &to = plan_.buffer(table.to);
    std::map<int, int64_t> received;
    for (const Message& m : table.messages) {
      Dims ends;
      for (int64_t extent : m.extents) ends.push_back(extent - 1);
      int64_t source = m.source, target = m.target;
      for (size_t d = 0; d < ends.size(); ++d)
        source += ends[d] * m.source_strides[d], target += ends[d] * m.target_strides[d];
      const int64_t first = global_position(from, m.from, m.source), last = global_position(from, m.from, source);
      if (first < 0 || last < 0 || first != global_position(to, m.to, m.target) ||
          last != global_position(to, m.to, target))
        wrong("transfer '{}' takes other elements from rank {} than rank {} needs", table.name, m.from, m.to);
      received[m.to] += element_count(m.extents);
    }
    for (int rank : plan_.places[to.place.index].ranks)
      if (received[rank] != held_elements(to, rank))
        wrong("transfer '{}' brings {} elements to rank {}, which needs {}", table.name, received[rank], rank,
              held_elements(to, rank));
  }

  void check_steps(const std::vector<Step>& steps) {
    for (const Step& step : steps) {
      if (const auto* launch = std::get_if<LaunchStep>(&step.what)) check_launch(step, *launch);
      if (const auto* what = std::get_if<CollectiveStep>(&step.what)) check_collective(step, *what);
      if (const auto* copy = std::get_if<CopyStep>(&step.what)) check_copy(step, *copy);
      if (const auto* trips = std::get_if<LoopStep>(&step.what)) check_carried(step, *trips), check_rows(step, *trips);
      const auto* loop = std::get_if<ForStep>(&step.what);
      if (loop && loop->mechanism != Mechanism::Streams) check_one_kernel(step, *loop);
      if (loop) trips_.push_back(loop->trips);
      for (const auto* body : bodies_of(step)) check_steps(*body);
      if (loop) trips_.pop_back();
    }
  }

  /// Checks that each trip writes each carried value. If a trip left one unchanged, the next one would read an old
  /// value.
  void check_carried(const Step& step, const LoopStep& loop) {
    for (BufferId carried : loop.carried) {
      const auto brings = [&](const Step& inner) {
        const auto* copy = std::get_if<CopyStep>(&inner.what);
        return copy && copy->to == carried;
      };
      if (std::none_of(loop.body.begin(), loop.body.end(), brings))
        wrong("no step of '{}' brings '{}' to the next trip", step.name, plan_.buffer(carried).name);
    }
  }

  /// Threads that share the rows of a loop are in different trips: a kernel touches its own rows only, and buffers of
  /// the loop that share memory have their rows in the same places.
  void check_rows(const Step& step, const LoopStep& loop) {
    if (!loop.rows || !check_axes(step, loop)) return;
    std::set<BufferId> touched;
    const std::set<BufferId>& own = loop.rows->own;
    for (BufferId buffer : own)
      if (!is_inside(users_, loop, buffer))
        wrong("each thread in '{}' has its own '{}', which others read", step.name, plan_.buffer(buffer).name);
    if (loop.iteration && !own.contains(loop.iteration))
      wrong("threads in '{}' have one '{}'", step.name, plan_.buffer(loop.iteration).name);
    for (const Step& inner : loop.body) {
      const auto* copy = std::get_if<CopyStep>(&inner.what);
      const auto* launch = std::get_if<LaunchStep>(&inner.what);
      if (inner.stream != step.stream || !inner.waits.empty() || !inner.raises.empty())
        wrong("'{}' is ordered beside the rows of '{}'", inner.name, step.name);
      if (launch ? !keeps_rows(plan_, *launch, *loop.rows) : !copy || !copies_rows(plan_, *copy, *loop.rows))
        wrong("'{}' needs more than its own rows of '{}'", inner.name, step.name);
      if (launch) check_kept(step, loop, inner, *launch);
      for (const Access& access : inner.accesses) {
        if (!own.contains(access.buffer)) touched.insert(access.buffer);
        if (plan_.buffer(access.buffer).life == Life::Block && !own.contains(access.buffer))
          wrong("'{}' touches a block of '{}', which is not its own", inner.name, plan_.buffer(access.buffer).name);
        if (access.write && !writes_rows(*loop.rows, access.buffer))
          wrong("'{}' writes '{}', which has no rows in '{}'", inner.name, plan_.buffer(access.buffer).name, step.name);
      }
    }
    for (const Program& program : plan_.programs)
      for (BufferId a : touched)
        for (BufferId b : touched)
          if (a.index < b.index && !are_apart(program, a, b) && !are_alike(program, a, b, *loop.rows))
            wrong("'{}' and '{}' share memory, which threads in '{}' use at once", plan_.buffer(a).name,
                  plan_.buffer(b).name, step.name);
  }

  /// A thread may keep only panels of an operand that does not change while the chain runs.
  void check_kept(const Step& step, const LoopStep& loop, const Step& inner, const LaunchStep& launch) {
    const auto* product = std::get_if<StridedProduct>(&plan_.kernel(launch.kernel).strategy);
    if (!product || !product->kept_bytes) return;
    const BufferId kept = launch.operands[product->kept].buffer;
    const bool is_made = std::any_of(loop.body.begin(), loop.body.end(), [&](const Step& maker) {
      return std::any_of(maker.accesses.begin(), maker.accesses.end(),
                         [&](const Access& access) { return access.write && access.buffer == kept; });
    });
    if (is_made) wrong("'{}' keeps panels of '{}', which '{}' makes", inner.name, plan_.buffer(kept).name, step.name);
  }

  /// A chain has one trip, blocks along each axis, and memory for one block of its intermediate values; another loop
  /// has one axis.
  bool check_axes(const Step& step, const LoopStep& loop) {
    const SharedRows& rows = *loop.rows;
    const bool is_chain = loop.max_trips == 1 && !loop.trip_count && !loop.condition && !loop.iteration;
    bool is_right = !rows.axes.empty() && rows.axes.size() <= (is_chain ? SharedRows::kMostAxes : 1);
    for (const RowAxis& axis : rows.axes)
      is_right = is_right && axis.count.high() > 0 && axis.block <= axis.count.high() &&
                 axis.block >= (rows.in_blocks() ? 1 : 0) && (rows.in_blocks() || axis.count.is_constant());
    if (!is_right || (rows.in_blocks() && !is_chain)) {
      wrong("the rows of '{}' are cut in no way that there is", step.name);
      return false;
    }
    for (const BufferId own : rows.own) {
      const Buffer& buffer = plan_.buffer(own);
      if ((buffer.life == Life::Block) != rows.in_blocks())
        wrong("'{}' does not live as long as a block of '{}'", buffer.name, step.name);
      if (rows.in_blocks() && block_elements(plan_, rows, own) * dtype_bytes(buffer.type.dtype) > buffer.bytes)
        wrong("'{}' has no room for a block of '{}'", buffer.name, step.name);
    }
    return true;
  }

  /// Whether no other thread writes the buffer's memory: it is the thread's own, or has rows along all axes. A buffer
  /// of a block must have the block's rows too.
  static bool writes_rows(const SharedRows& rows, BufferId buffer) {
    if (rows.own.contains(buffer) && !rows.in_blocks()) return true;
    return std::all_of(rows.axes.begin(), rows.axes.end(),
                       [&](const RowAxis& axis) { return axis.strides.contains(buffer); });
  }

  bool are_apart(const Program& program, BufferId a, BufferId b) const {
    const Buffer &x = plan_.buffer(a), &y = plan_.buffer(b);
    const Position &at_x = program.positions[a.index], &at_y = program.positions[b.index];
    const bool is_held = at_x.kind != Position::Kind::Absent && at_y.kind != Position::Kind::Absent;
    return !is_held || x.window != y.window || at_x.offset + x.bytes * x.depth <= at_y.offset ||
           at_y.offset + y.bytes * y.depth <= at_x.offset;
  }

  /// Whether row i of both lies in the same bytes.
  bool are_alike(const Program& program, BufferId a, BufferId b, const SharedRows& rows) const {
    const Buffer &x = plan_.buffer(a), &y = plan_.buffer(b);
    const auto is_alike = [&](const RowAxis& axis) {
      const auto of_a = axis.strides.find(a), of_b = axis.strides.find(b);
      return of_a != axis.strides.end() && of_b != axis.strides.end() && of_a->second == of_b->second;
    };
    return std::all_of(rows.axes.begin(), rows.axes.end(), is_alike) && x.bytes == y.bytes &&
           dtype_bytes(x.type.dtype) == dtype_bytes(y.type.dtype) &&
           program.positions[a.index].offset == program.positions[b.index].offset;
  }

  /// The steps of a loop that is one kernel are kernels themselves, which signal and wait inside; a fused loop
  /// has no other steps.
  void check_one_kernel(const Step& step, const ForStep& loop) {
    for (const Step& inner : loop.body) {
      if (inner.stream != step.stream) {
        if (loop.mechanism == Mechanism::Fused) wrong("'{}' runs beside the kernel of '{}'", inner.name, step.name);
        continue;
      }
      if (!std::holds_alternative<LaunchStep>(inner.what) && !std::holds_alternative<CopyStep>(inner.what))
        wrong("'{}' is a part of a kernel but computes nothing", inner.name);
      const bool waits =
          std::any_of(inner.waits.begin(), inner.waits.end(), [](const Wait& w) { return !w.in_kernel; });
      const bool raises =
          std::any_of(inner.raises.begin(), inner.raises.end(), [](const Raise& r) { return !r.in_kernel; });
      if (waits || raises) wrong("'{}' is a part of a kernel but waits or raises outside", inner.name);
    }
  }

  /// The loops around a step make as many iterations as its axes of time have chunks, so that an accumulation
  /// lacks nothing.
  void check_trips(const Step& step, PlaceId place, const Mesh& mesh) {
    const size_t axes = mesh.size() - plan_.places[place.index].mesh.size();
    if (axes > trips_.size()) return wrong("'{}' has {} axes of time in {} loops", step.name, axes, trips_.size());
    for (size_t t = 0; t < axes; ++t) {
      const int trips = trips_[trips_.size() - axes + t], chunks = mesh[mesh.size() - axes + t].size;
      if (trips != chunks) wrong("'{}' is one of {} chunks, its loop makes {} trips", step.name, chunks, trips);
    }
  }

  /// The step declares its access to the buffer.
  void check_access(const Step& step, BufferId buffer, bool write) {
    for (const Access& access : step.accesses)
      if (access.buffer == buffer && access.write == write) return;
    wrong("'{}' {} '{}' but does not say so", step.name, write ? "writes" : "reads", plan_.buffer(buffer).name);
  }

  /// The type's elements fit into an instance of the buffer. `whole`: axes of time over which the memory is not
  /// cut.
  void check_size(const Step& step, BufferId id, TensorType type, const std::vector<int>& whole, const Mesh& mesh) {
    const Buffer& buffer = plan_.buffer(id);
    for (int axis : whole) type.layout.set(axis, {});
    const int64_t bytes = element_count(buffer_dims(type, mesh)) * dtype_bytes(type.dtype);
    if (bytes > buffer.bytes && buffer.life != Life::Block)
      wrong("'{}' needs {} bytes of '{}', which has {}", step.name, bytes, buffer.name, buffer.bytes);
    if (type.dtype != buffer.type.dtype) wrong("'{}' takes '{}' as another element type", step.name, buffer.name);
  }

  /// Checks that the kernel touches the stripe of the buffer that the step states, and that it lies inside the buffer.
  void check_stripe(const Step& step, BufferId id, bool write, const Parameter& parameter) {
    const std::optional<Stripe>& stripe = parameter.storage.stripe;
    const Buffer& buffer = plan_.buffer(id);
    if (std::none_of(step.accesses.begin(), step.accesses.end(), [&](const Access& access) {
          return access.buffer == id && access.write == write && access.stripe == stripe;
        }))
      wrong("'{}' touches another stripe of '{}' than it says", step.name, buffer.name);
    if (!stripe) return;
    Dims dims = buffer.type.dims();
    const size_t dim = static_cast<size_t>(stripe->dim);
    const bool fits =
        dim < dims.size() && stripe->extent == dims[dim] && stripe->start >= 0 && stripe->end() <= dims[dim];
    if (fits) dims[dim] = stripe->count;
    if (!fits || dims != parameter.type.dims())
      wrong("'{}' takes a stripe of '{}' that it does not have", step.name, buffer.name);
  }

  void check_launch(const Step& step, const LaunchStep& launch) {
    const Kernel& kernel = plan_.kernel(launch.kernel);
    if (kernel.parameters.size() != launch.operands.size())
      return wrong("'{}' binds {} operands", step.name, launch.operands.size());
    check_trips(step, kernel.place, kernel.mesh);
    for (BufferId length : launch.lengths)
      if (length) check_access(step, length, false);
    for (size_t f = 0; f < kernel.parameters.size(); ++f) {
      const Parameter& parameter = kernel.parameters[f];
      const Operand& operand = launch.operands[f];
      if (operand.weight) {
        if (!parameter.weight || !(plan_.weight(operand.weight).storage == parameter.storage))
          wrong("'{}' reads weight '{}' stored in another way", step.name, plan_.weight(operand.weight).name);
        continue;
      }
      check_access(step, operand.buffer, f >= kernel.body.inputs().size());
      check_size(step, operand.buffer, parameter.type, parameter.whole_over, kernel.mesh);
      check_stripe(step, operand.buffer, f >= kernel.body.inputs().size(), parameter);
      if (!is_stored_as(plan_.buffer(operand.buffer), parameter.storage))
        wrong("'{}' takes '{}' as stored in another way", step.name, plan_.buffer(operand.buffer).name);
      if (parameter.window && !plan_.buffer(operand.buffer).window)
        wrong("'{}' lets peers reach '{}', which is no window", step.name, plan_.buffer(operand.buffer).name);
    }
  }

  /// Both buffers are declared and fit.
  void check_copy(const Step& step, const CopyStep& copy) {
    if (copy.is_empty()) return;
    check_access(step, copy.from, false);
    check_access(step, copy.to, true);
    const Buffer &from = plan_.buffer(copy.from), &to = plan_.buffer(copy.to);
    if (from.bytes > to.bytes || from.type.dtype != to.type.dtype)
      wrong("'{}' copies '{}' to '{}', which differ", step.name, from.name, to.name);
  }

  /// True if the collective takes an axis from one state to the other.
  static bool does(OpKind kind, const AxisState& from, const AxisState& to) {
    switch (kind) {
      case OpKind::AllReduce:
        return (from.is(Kind::P) || from.is(Kind::V)) && to.is(Kind::R);
      case OpKind::ReduceScatter:
        return (from.is(Kind::P) || from.is(Kind::V)) && to.is(Kind::S);
      case OpKind::AllGather:
        return from.is(Kind::S) && to.is(Kind::R);
      case OpKind::AllToAll:
        return from.is(Kind::S) && to.is(Kind::S);
      case OpKind::Broadcast:
        return from.is(Kind::V) && to.is(Kind::R);
      case OpKind::Reduce:
        return from.is(Kind::V) && to.is(Kind::V);
      case OpKind::ShardSlice:
        return from.is(Kind::R) && to.is(Kind::S);
      default:
        return false;
    }
  }

  /// A collective declares that it reads the copies of the ranks that it joins: if all copies vary, types do
  /// not tell which those are.
  void check_peers(const Step& step, const CollectiveStep& what) {
    const std::vector<int> joined = what.kind == OpKind::ShardSlice ? std::vector<int>{} : what.axes;
    for (const Access& access : step.accesses)
      if (access.buffer == what.from && !access.write && access.peers != joined)
        wrong("'{}' joins other ranks than those whose '{}' it reads", step.name, plan_.buffer(what.from).name);
  }

  /// The step's types change according to its kind, on its own axes only, in buffers that it declares.
  void check_collective(const Step& step, const CollectiveStep& what) {
    check_trips(step, what.place, what.mesh);
    check_peers(step, what);
    check_access(step, what.from, false);
    check_access(step, what.to, true);
    check_size(step, what.from, what.from_type, what.from_whole_over, what.mesh);
    check_size(step, what.to, what.to_type, what.to_whole_over, what.mesh);
    if (what.kind != OpKind::ShardSlice && !plan_.buffer(what.from).window)
      wrong("peers read '{}' in '{}', which is no window", plan_.buffer(what.from).name, step.name);
    const int place_axes = static_cast<int>(plan_.places[what.place.index].mesh.size());
    for (int a = 0; a < static_cast<int>(what.mesh.size()); ++a) {
      const AxisState from = what.from_type.layout[a], to = what.to_type.layout[a];
      const bool listed = contains(what.axes, a);
      if (!listed && !(from == to))
        wrong("'{}' changes axis '{}', which it does not join", step.name, what.mesh[a].name);
      if (listed && (a >= place_axes || !does(what.kind, from, to)))
        wrong("'{}' does not take axis '{}' from {} to {}", step.name, what.mesh[a].name, state_text(from),
              state_text(to));
      if (listed && from.is(Kind::P) && from.op != what.reduce)
        wrong("'{}' reduces by {}, its operand is a partial {}", step.name, reduce_name(what.reduce),
              reduce_name(from.op));
    }
  }

  const Plan& plan_;
  const std::vector<int> users_;  // of each buffer
  std::vector<int> trips_;        // of the loops around a step, outer first
  std::vector<std::string> wrong_;
};

}  // namespace

/// Expands the Plan (branches taken one way) and checks cycles and memory.
static std::vector<std::string> prove_events(const Plan& plan, bool second_branch) {
  const PlanEvents events(plan, second_branch);
  if (!events.violations.empty()) return events.violations;
  if (static_cast<int>(events.order.size()) < events.nodes) return {"a cycle: " + events.cycle_text()};
  return prove_memory(events);
}

/// True if an If is among the steps: then both branches are proved.
static bool has_branch(const std::vector<Step>& steps) {
  return std::any_of(steps.begin(), steps.end(), [](const Step& step) {
    if (std::holds_alternative<IfStep>(step.what)) return true;
    const auto bodies = bodies_of(step);
    return std::any_of(bodies.begin(), bodies.end(), [](const auto* body) { return has_branch(*body); });
  });
}

static bool has_branch(const Plan& plan) {
  return std::any_of(plan.blocks.begin(), plan.blocks.end(),
                     [](const Block& block) { return has_branch(block.steps); });
}

/// The Plan that a pipeline of a training runs in an evaluation, which leaves all states and inputs as they are.
static Plan evaluation_of(const Plan& plan) {
  Plan part = plan;
  std::erase_if(part.order, [&](const OrderedBlock& entry) {
    return plan.blocks[static_cast<size_t>(entry.block)].phase != Phase::Forward;
  });
  for (Block& block : part.blocks)
    for_each_step(block.steps, [&](Step& step) {
      std::erase_if(step.waits, [](const Wait& wait) { return wait.trains; });
      const auto* send = std::get_if<SendStep>(&step.what);
      if (!send || step.phase == Phase::Forward) return;
      const BufferId from = plan.transfers[static_cast<size_t>(send->transfer)].from;
      step.what = CopyStep{from, from, true};  // no rank receives it
      step.accesses.clear();
    });
  std::erase_if(part.outputs, [&](const Port& port) { return !plan.training->is_figure(port.name); });
  part.states.clear();
  return part;
}

std::vector<std::string> prove_plan(const Plan& plan) {
  std::vector<std::string> wrong = Checks(plan).run();
  if (wrong.empty()) wrong = prove_events(plan, false);
  if (wrong.empty() && has_branch(plan)) wrong = prove_events(plan, true);
  if (wrong.empty() && plan.has_stages && plan.training)
    for (const std::string& line : prove_events(evaluation_of(plan), false))
      wrong.push_back("in an evaluation: " + line);
  std::vector<std::string> shown;
  std::set<std::string> seen;
  for (std::string& line : wrong)
    if (shown.size() < kMostShown && seen.insert(line).second) shown.push_back(std::move(line));
  return shown;
}

}  // namespace weftc
