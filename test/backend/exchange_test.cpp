// The geometry of collectives, executed by hand on all ranks, gives the slices that the layouts ask for.
#include "backend/exchange.h"

#include <doctest/doctest.h>

#include "ir/evaluate/evaluate.h"

using namespace weftc;

namespace {

Tensor counting(const Dims& dims) {
  Tensor tensor(DType::F32, dims);
  for (int64_t i = 0; i < tensor.size(); ++i) tensor.real[static_cast<size_t>(i)] = static_cast<double>(i + 1);
  return tensor;
}

TensorType typed(const Dims& dims, const std::vector<std::pair<int, AxisState>>& states) {
  TensorType type{DType::F32, shape_of(dims), {}};
  for (const auto& [axis, state] : states) type.layout.set(axis, state);
  return type;
}

/// A tensor as in a buffer: ragged slices have room for a whole block.
Tensor padded(const Tensor& local, const Dims& room) {
  Tensor tensor(local.dtype, room);
  const Dims strides = strides_of(room);
  for (Index at(local.dims); at.more(); at.next())
    tensor.real[static_cast<size_t>(at.dot(strides))] = local.real[static_cast<size_t>(at.linear())];
  return tensor;
}

struct Exchanged {
  const CollectiveStep& step;
  const ExchangeBox& box;
  std::vector<Tensor> from;

  /// Index of a rank in the group, and the ranks of its group.
  int64_t coordinate(int rank, size_t axis) const {
    return coordinates_of(step.mesh, rank)[static_cast<size_t>(step.axes[axis])];
  }
  bool together(int a, int b) const {
    const Coordinates x = coordinates_of(step.mesh, a), y = coordinates_of(step.mesh, b);
    for (size_t i = 0; i < x.size(); ++i)
      if (x[i] != y[i] && std::find(step.axes.begin(), step.axes.end(), static_cast<int>(i)) == step.axes.end())
        return false;
    return true;
  }
  int64_t valid(const ExchangeBox::Clip& clip, int rank) const {
    return std::clamp<int64_t>(clip.extent - coordinate(rank, 0) * clip.block, 0, clip.block);
  }
  void pull(int me, int peer, Tensor& to, bool adds) const {
    int64_t source = 0, target = 0;
    for (size_t a = 0; a < step.axes.size(); ++a) {
      source += coordinate(me, a) * box.source_by_me[a];
      target += coordinate(peer, a) * box.target_by_peer[a];
    }
    Dims extents;
    for (const ExchangeBox::Dim& d : box.dims) extents.push_back(d.extent);
    if (box.by_peer.dim >= 0) extents[static_cast<size_t>(box.by_peer.dim)] = valid(box.by_peer, peer);
    if (box.by_me.dim >= 0) extents[static_cast<size_t>(box.by_me.dim)] = valid(box.by_me, me);
    for (Index at(extents); at.more(); at.next()) {
      int64_t s = source, t = target;
      for (size_t d = 0; d < extents.size(); ++d)
        s += at[static_cast<int>(d)] * box.dims[d].source, t += at[static_cast<int>(d)] * box.dims[d].target;
      double& place = to.real[static_cast<size_t>(t)];
      place = (adds ? place : 0) + from[static_cast<size_t>(peer)].real[static_cast<size_t>(s)];
    }
  }
};

void check(OpKind kind, const Mesh& mesh, const std::vector<int>& axes, const TensorType& from, const TensorType& to) {
  CollectiveStep step{};
  step.kind = kind, step.axes = axes, step.mesh = mesh, step.from_type = from, step.to_type = to;
  const std::optional<ExchangeBox> box = exchange_box(step, mesh.size());
  REQUIRE(box.has_value());
  const Tensor global = counting(from.dims());
  Exchanged run{step, *box, {}};
  for (const Tensor& local : scatter(global, from, mesh)) run.from.push_back(padded(local, buffer_dims(from, mesh)));
  const Locals wanted = scatter(global, to, mesh);
  const bool reduces = kind == OpKind::AllReduce || kind == OpKind::ReduceScatter;
  for (int me = 0; me < mesh_size(mesh); ++me) {
    Tensor got(DType::F32, buffer_dims(to, mesh));
    for (int peer = 0; peer < mesh_size(mesh); ++peer)
      if (kind == OpKind::ShardSlice ? peer == me : run.together(me, peer)) run.pull(me, peer, got, reduces);
    INFO(layout_text(from.layout, mesh), " to ", layout_text(to.layout, mesh), " on rank ", me);
    CHECK(got.real == padded(wanted[static_cast<size_t>(me)], buffer_dims(to, mesh)).real);
  }
}

const Mesh kFour = {{"tp", 4}};
const Mesh kGrid = {{"dp", 2}, {"tp", 3}};
AxisState slice(int dim, int64_t block) { return AxisState::sliced(dim, block); }
AxisState sum() { return AxisState::partial(ReduceOp::Sum); }

}  // namespace

TEST_CASE("exchange: reductions") {
  check(OpKind::AllReduce, kFour, {0}, typed({6, 8}, {{0, sum()}}), typed({6, 8}, {}));
  check(OpKind::ReduceScatter, kFour, {0}, typed({6, 8}, {{0, sum()}}), typed({6, 8}, {{0, slice(1, 2)}}));
  check(OpKind::ReduceScatter, kFour, {0}, typed({6, 8}, {{0, sum()}}), typed({6, 8}, {{0, slice(1, 1)}}));
  check(OpKind::ReduceScatter, kFour, {0}, typed({3, 10}, {{0, sum()}}), typed({3, 10}, {{0, slice(1, 3)}}));
  check(OpKind::ReduceScatter, kGrid, {1}, typed({6, 12}, {{0, slice(0, 3)}, {1, sum()}}),
        typed({6, 12}, {{0, slice(0, 3)}, {1, slice(1, 4)}}));
  check(OpKind::ReduceScatter, kGrid, {0, 1}, typed({12, 2}, {{0, sum()}, {1, sum()}}),
        typed({12, 2}, {{0, slice(0, 6)}, {1, slice(0, 2)}}));
}

TEST_CASE("exchange: gathers and local slices") {
  for (OpKind kind : {OpKind::AllGather, OpKind::ShardSlice}) {
    const auto both = [&](const Mesh& mesh, const std::vector<int>& axes, const TensorType& whole,
                          const TensorType& sliced) {
      if (kind == OpKind::AllGather)
        check(kind, mesh, axes, sliced, whole);
      else
        check(kind, mesh, axes, whole, sliced);
    };
    both(kFour, {0}, typed({8, 5}, {}), typed({8, 5}, {{0, slice(0, 2)}}));
    both(kFour, {0}, typed({3, 24}, {}), typed({3, 24}, {{0, slice(1, 2)}}));
    both(kFour, {0}, typed({10, 3}, {}), typed({10, 3}, {{0, slice(0, 3)}}));
    both(kGrid, {1}, typed({12, 4}, {{0, slice(0, 6)}}), typed({12, 4}, {{0, slice(0, 6)}, {1, slice(0, 2)}}));
    both(kGrid, {0}, typed({12, 4}, {{1, slice(0, 2)}}), typed({12, 4}, {{0, slice(0, 6)}, {1, slice(0, 2)}}));
  }
}

TEST_CASE("exchange: from one slice to another") {
  check(OpKind::AllToAll, kFour, {0}, typed({8, 12}, {{0, slice(0, 2)}}), typed({8, 12}, {{0, slice(1, 3)}}));
  check(OpKind::AllToAll, kFour, {0}, typed({8, 12, 2}, {{0, slice(1, 1)}}), typed({8, 12, 2}, {{0, slice(0, 2)}}));
  check(OpKind::AllToAll, kFour, {0}, typed({16, 3}, {{0, slice(0, 4)}}), typed({16, 3}, {{0, slice(0, 1)}}));
  check(OpKind::AllToAll, kFour, {0}, typed({10, 8}, {{0, slice(0, 3)}}), typed({10, 8}, {{0, slice(1, 2)}}));
  check(OpKind::AllToAll, kGrid, {1}, typed({6, 6}, {{0, slice(0, 3)}, {1, slice(0, 1)}}),
        typed({6, 6}, {{0, slice(0, 3)}, {1, slice(1, 2)}}));
}

TEST_CASE("exchange: slices that do not nest are refused") {
  CollectiveStep step{};
  step.kind = OpKind::AllToAll, step.axes = {0}, step.mesh = {{"tp", 3}};
  step.from_type = typed({18}, {{0, slice(0, 2)}}), step.to_type = typed({18}, {{0, slice(0, 3)}});
  CHECK(!exchange_box(step, 1).has_value());
}

TEST_CASE("exchange: a ragged slice over several axes at once is refused") {
  CollectiveStep step{};
  step.kind = OpKind::ShardSlice, step.axes = {0, 1}, step.mesh = {{"a", 2}, {"b", 2}};
  step.from_type = typed({5, 6}, {}), step.to_type = typed({5, 6}, {{0, slice(1, 3)}, {1, slice(0, 3)}});
  CHECK(!exchange_box(step, 2).has_value());
}

TEST_CASE("exchange: run-time lengths shorten a box") {
  CollectiveStep step{};
  step.kind = OpKind::AllGather, step.axes = {0}, step.mesh = kGrid;
  const Shape shape = {
      run_time_extent(6, Length::named("batch", 6)), run_time_extent(4, Length::named("seq", 4)), {8, {}}};
  // By bounds: what a peer holds of the batch, of each text its tokens.
  step.from_type = {DType::F32, shape, {}}, step.to_type = step.from_type;
  step.from_type.layout.set(0, slice(0, 3));
  const std::optional<ExchangeBox> rows = exchange_box(step, 2, true);
  REQUIRE((rows && rows->dims.size() == 2));
  CHECK((rows->by_peer.dim == 0 && rows->by_peer.length == 0 && rows->by_peer.block == 3));
  CHECK(rows->dims[0].lengths.empty());
  CHECK((rows->dims[1].lengths == std::vector<int>{1} && rows->dims[1].extent == 32));
  // Dense: all existing tokens are contiguous.
  step.from_type.layout = {};
  step.from_type.layout.set(0, slice(2, 4));
  const std::optional<ExchangeBox> columns = exchange_box(step, 2, false);
  REQUIRE((columns && columns->dims.size() == 2));
  CHECK((columns->dims[0].lengths == std::vector<int>{0, 1} && columns->dims[0].extent == 24));
  // A plain count by bounds: up to the last text's.
  step.kind = OpKind::AllReduce;
  step.from_type.layout = {}, step.to_type.layout = {};
  step.from_type.layout.set(0, sum());
  const std::optional<ExchangeBox> all = exchange_box(step, 2, true);
  REQUIRE((all && all->is_identity()));
  CHECK((all->dims[0].lengths == std::vector<int>{0} && all->dims[0].extent == 192));
}
