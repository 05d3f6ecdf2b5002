// Attributes that count elements (starts, pads, shapes) are global in the graph; here they become a rank's.
#include "ir/local_op.h"

#include <algorithm>

namespace weftc {

namespace {

/// One dimension on a rank.
struct LocalDim {
  int64_t extent;
  std::vector<Digit> digits;
  const Coordinates& at;

  /// How many of the indices below `end` this rank holds: the local position of a global boundary.
  int64_t held_below(int64_t end) const {
    if (digits.empty()) return end;
    const std::vector<int64_t> held = held_indices(extent, digits, at);
    return std::lower_bound(held.begin(), held.end(), end) - held.begin();
  }
  /// A length that is a multiple of every slice's period.
  int64_t share(int64_t length) const {
    for (const Digit& d : digits) length /= d.size;
    return length;
  }
};

LocalDim local_dim(const TensorType& type, int dim, const Mesh& mesh, const Coordinates& at) {
  return {type.shape[dim].bound, digits_of(type.layout, dim, mesh), at};
}

void localize_slice(Op& op, const TensorType& from, const Mesh& mesh, const Coordinates& at) {
  std::vector<int64_t> starts = op.ints("starts"), ends = op.ints("ends");
  for (int d = 0; d < from.ndim(); ++d) {
    const LocalDim dim = local_dim(from, d, mesh, at);
    if (dim.digits.empty()) continue;
    starts[d] = dim.held_below(std::clamp<int64_t>(starts[d], 0, dim.extent));
    ends[d] = dim.held_below(std::clamp<int64_t>(ends[d], 0, dim.extent));
  }
  op.set("starts", starts);
  op.set("ends", ends);
}

/// A border is a multiple of every slice's period (L5), so each rank has its share of it.
void localize_pad(Op& op, const TensorType& from, const Mesh& mesh, const Coordinates& at) {
  std::vector<int64_t> pads = op.ints("pads");
  for (int d = 0; d < from.ndim(); ++d) {
    const LocalDim dim = local_dim(from, d, mesh, at);
    pads[d] = dim.share(pads[d]);
    pads[d + from.ndim()] = dim.share(pads[d + from.ndim()]);
  }
  op.set("pads", pads);
}

/// True for Slice, Pad, and ops with the shape of their result as an attribute.
bool speaks_of_positions(const Op& op) { return op.kind == OpKind::Slice || op.kind == OpKind::Pad || op.has("shape"); }

bool is_sliced(const Graph& graph, ValueId value) { return value && graph.type(value).layout.has(AxisState::Kind::S); }

}  // namespace

bool needs_localize(const Graph& graph, const Op& op) {
  if (!speaks_of_positions(op)) return false;
  const auto sliced = [&](ValueId v) { return is_sliced(graph, v); };
  return std::any_of(op.inputs.begin(), op.inputs.end(), sliced) ||
         std::any_of(op.outputs.begin(), op.outputs.end(), sliced);
}

Op localize(const Module& module, const Graph& graph, const Op& op, const Coordinates& at) {
  Op local = op;
  const Mesh mesh = module.mesh(graph, op.place);
  if (op.kind == OpKind::Slice) localize_slice(local, graph.type(op.inputs[0]), mesh, at);
  if (op.kind == OpKind::Pad) localize_pad(local, graph.type(op.inputs[0]), mesh, at);
  if (op.has("shape")) local.set("shape", local_dims(graph.type(op.outputs[0]), mesh, at));
  return local;
}

PlaceId place_of(const Graph& graph, ValueId value) {
  const Value& v = graph.value(value);
  const Op& op = graph.op(v.producer);
  if (op.place || op.regions.empty()) return op.place;
  const Graph& region = op.regions[0];
  // A Loop's region returns the condition first.
  const size_t output = v.result + (op.kind == OpKind::Loop ? 1 : 0);
  return output < region.outputs().size() ? place_of(region, region.outputs()[output].value) : op.place;
}

}  // namespace weftc
