// Reference evaluation of ops that own graphs: each run of a region is a Frame. A Chunk's iteration is one more
// coordinate of the mesh, so that splitting operands and joining results are ordinary reshards. A Loop's iteration is
// not: its values are carried from frame to frame.
#include "ir/base/check.h"
#include "ir/base/text.h"
#include "ir/evaluate/evaluate_frame.h"
#include "ir/local_op.h"
#include "ir/trips.h"

namespace weftc {

bool Frame::run_region(const Op& op) {
  switch (op.kind) {
    case OpKind::Fused:
      return run_fused(op);
    case OpKind::Chunk:
      return run_chunk(op);
    case OpKind::If:
      return run_if(op);
    case OpKind::Loop:
      return run_loop(op);
    default:
      return fail(op, "this region cannot be evaluated");
  }
}

std::vector<const Locals*> Frame::captures(const Op& op, size_t first) const {
  std::vector<const Locals*> bound;
  for (size_t i = first; i < op.inputs.size(); ++i) bound.push_back(values_[op.inputs[i].index]);
  return bound;
}

std::optional<int64_t> Frame::agreed(const Op& op, ValueId value, const char* what) {
  const Locals& copies = locals(value);
  for (const Tensor& copy : copies) {
    if (copy.size() != 1) return fail(op, format("the {} is not one element", what)), std::nullopt;
    if (copy.int_at(0) != copies[0].int_at(0))
      return fail(op, format("the {} differs between ranks", what)), std::nullopt;
  }
  return copies[0].int_at(0);
}

/// The ops of the kernel one by one.
bool Frame::run_fused(const Op& op) {
  const Graph& body = op.regions[0];
  Frame frame(run_, body, time_);
  frame.bind_inputs(captures(op, 0));
  if (!frame.run(false)) return false;
  for (size_t i = 0; i < op.outputs.size(); ++i) store(op.outputs[i], frame.output(i));
  return true;
}

/// All ranks must agree on the condition: otherwise a collective in a branch would miss some ranks.
bool Frame::run_if(const Op& op) {
  const std::optional<int64_t> condition = agreed(op, op.inputs[0], "condition");
  if (!condition) return false;
  Frame frame(run_, op.regions[*condition ? 0 : 1], time_);
  frame.bind_inputs(captures(op, 1));
  if (!frame.run(false)) return false;
  for (size_t i = 0; i < op.outputs.size(); ++i) store(op.outputs[i], frame.output(i));
  return true;
}

/// One entry for each rank of the mesh: the tensors of a place's ranks, at every coordinate of the last axis.
static std::vector<const Tensor*> at_all_times(const Locals& ranks, const Mesh& mesh, const Coordinates& time) {
  std::vector<const Tensor*> sources(mesh_size(mesh), nullptr);
  const size_t place_axes = mesh.size() - time.size() - 1;
  for (int i = 0; i < static_cast<int>(sources.size()); ++i) {
    const Coordinates at = coordinates_of(mesh, i);
    if (!std::equal(time.begin(), time.end(), at.begin() + static_cast<long>(place_axes))) continue;
    sources[i] = &ranks[index_of(Mesh(mesh.begin(), mesh.begin() + static_cast<long>(place_axes)), at)];
  }
  return sources;
}

void Frame::bind_chunk(const Op& op, Frame& body) const {
  for (size_t i = 0; i < op.inputs.size(); ++i) {
    const ValueId parameter = body.graph_.inputs()[i];
    const TensorType &whole = graph_.type(op.inputs[i]), &part = body.graph_.type(parameter);
    const PlaceId place = place_of(graph_, op.inputs[i]);
    const Locals& operand = locals(op.inputs[i]);
    if (part.layout == whole.layout) {
      body.bind(parameter, &operand);
      continue;
    }
    const Mesh axes = body.mesh(place);
    std::vector<int> targets;
    for (size_t rank = 0; rank < operand.size(); ++rank)
      targets.push_back(index_of(axes, body.coordinates(place, static_cast<int>(rank))));
    body.store(parameter, reshard_some(at_all_times(operand, axes, time_), whole, part, axes, targets, ReduceOp::Sum));
  }
}

// S puts the chunks at their positions, P(op) reduces them in order, R demands that they are equal.
bool Frame::join_chunks(const Op& op, size_t output, const std::vector<Locals>& chunks) {
  const Graph& body = op.regions[0];
  const ValueId value = body.outputs()[output].value;
  const PlaceId place = place_of(body, value);
  const Mesh axes = run_.module.mesh(body, place);
  std::vector<const Tensor*> sources(mesh_size(axes), nullptr);
  std::vector<int> targets;
  for (int rank = 0; rank < mesh_size(rank_mesh(place)); ++rank)
    for (size_t c = 0; c < chunks.size(); ++c) {
      Coordinates at = coordinates(place, rank);
      at.push_back(static_cast<int>(c));
      const int index = index_of(axes, at);
      sources[index] = &chunks[c][rank];
      if (c == 0) targets.push_back(index);
    }
  const TensorType &part = body.type(value), &whole = graph_.type(op.outputs[output]);
  if (part.layout[static_cast<int>(axes.size()) - 1].is(AxisState::Kind::R))
    for (const Locals& chunk : chunks)
      for (size_t rank = 0; rank < chunk.size(); ++rank)
        if (!same_elements(chunk[rank], chunks[0][rank]))
          return fail(op, format("result {} differs between chunks", output));
  store(op.outputs[output], reshard_some(sources, part, whole, axes, targets, ReduceOp::Sum));
  return true;
}

/// The chunks one after another; their order cannot matter, because no iteration reads another's results (C2).
bool Frame::run_chunk(const Op& op) {
  const Graph& body = op.regions[0];
  const int chunks = body.time_axes.back().size;
  std::vector<std::vector<Locals>> parts(op.outputs.size());
  for (int c = 0; c < chunks; ++c) {
    Coordinates now = time_;
    now.push_back(c);
    Frame frame(run_, body, now);
    bind_chunk(op, frame);
    if (!frame.run(false)) return false;
    for (size_t i = 0; i < parts.size(); ++i) parts[i].push_back(frame.output(i));
  }
  for (size_t i = 0; i < parts.size(); ++i)
    if (!join_chunks(op, i, parts[i])) return false;
  return true;
}

// A condition that never turns false is an error of the model, but evaluation must end.
constexpr int64_t kMostTrips = 1 << 20;

/// The same integer on every rank, in the type that the body needs.
static Locals copies(const TensorType& type, size_t ranks, int64_t value) {
  Tensor one(type.dtype, type.dims());
  for (int64_t i = 0; i < one.size(); ++i) one.put_int(i, value);
  return Locals(ranks, one);
}

/// Runs one iteration with its number and condition, the carried values and the captures. Sets the condition for the
/// next one.
bool Frame::run_trip(const Op& op, int64_t trip, int64_t& condition, std::vector<Locals>& carried,
                     std::vector<std::vector<Locals>>& scans) {
  const Graph& body = op.regions[0];
  Frame frame(run_, body, time_);
  const auto ranks = [&](size_t parameter) {
    return static_cast<size_t>(mesh_size(rank_mesh(body.producer_op(body.inputs()[parameter]).place)));
  };
  frame.store(body.inputs()[0], copies(body.type(body.inputs()[0]), ranks(0), trip));
  frame.store(body.inputs()[1], copies(body.type(body.inputs()[1]), ranks(1), condition));
  for (size_t i = 0; i < carried.size(); ++i) frame.store(body.inputs()[2 + i], std::move(carried[i]));
  for (size_t i = 2 + carried.size(); i < op.inputs.size(); ++i)
    frame.bind(body.inputs()[i], values_[op.inputs[i].index]);
  if (!frame.run(false)) return false;
  const std::optional<int64_t> again = frame.agreed(op, body.outputs()[0].value, "condition");
  if (!again) return false;
  condition = *again;
  for (size_t i = 0; i < carried.size(); ++i) carried[i] = frame.output(1 + i);
  for (size_t i = 0; i < scans.size(); ++i) scans[i].push_back(frame.output(1 + carried.size() + i));
  return true;
}

bool Frame::store_scan(const Op& op, size_t output, const std::vector<Locals>& trips) {
  const ValueId value = op.outputs[output];
  const TensorType& type = graph_.type(value);
  const PlaceId place = place_of(graph_, value);
  Locals stacked;
  for (int rank = 0; rank < mesh_size(rank_mesh(place)); ++rank) {
    Dims dims = local_dims(type, mesh(place), coordinates(place, rank));
    const int64_t most = dims[0];
    dims[0] = static_cast<int64_t>(trips.size());
    if (dims[0] > most || (dims[0] != most && !type.shape[0].is_run_time()))
      return fail(op, format("{} trips where result {} has {}", trips.size(), output, most));
    for (size_t d = 1; d < dims.size() && !trips.empty(); ++d) dims[d] = trips[0][rank].dims[d - 1];
    Tensor& all = stacked.emplace_back(type.dtype, dims);
    for (size_t t = 0; t < trips.size(); ++t) {
      const Tensor& one = trips[t][rank];
      for (int64_t i = 0; i < one.size(); ++i) all.copy_element(static_cast<int64_t>(t) * one.size() + i, one, i);
    }
  }
  store(value, std::move(stacked));
  return true;
}

bool Frame::run_loop(const Op& op) {
  std::optional<int64_t> trips = kMostTrips, condition = 1;
  if (op.inputs[0]) trips = agreed(op, op.inputs[0], "trip count");
  if (op.inputs[1]) condition = agreed(op, op.inputs[1], "condition");
  if (!trips || !condition) return false;
  std::vector<Locals> carried(static_cast<size_t>(op.integer_or("carried", 0)));
  for (size_t i = 0; i < carried.size(); ++i) carried[i] = locals(op.inputs[2 + i]);
  std::vector<std::vector<Locals>> scans(op.outputs.size() - carried.size());
  const auto outer = static_cast<uint32_t>(run_.random.trip);
  for (int64_t trip = 0; trip < *trips && *condition; ++trip) {
    if (trip == kMostTrips - 1) return fail(op, "runs without end");
    run_.random.trip = trip_within(outer, trip);
    if (!run_trip(op, trip, *condition, carried, scans)) return false;
  }
  run_.random.trip = outer;
  const size_t count = carried.size();
  for (size_t i = 0; i < count; ++i) store(op.outputs[i], std::move(carried[i]));
  for (size_t i = 0; i < scans.size(); ++i)
    if (!store_scan(op, count + i, scans[i])) return false;
  return true;
}

}  // namespace weftc
