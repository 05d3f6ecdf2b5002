// Types that emitted programs and kernels share: axes, groups, places in memory, signals, geometry of collectives.
#pragma once
#include <cstdint>
#include <initializer_list>
#include <span>

#include "weft/numeric.h"

namespace weft {

/// One named axis of a place. A place is an ordered list of ranks; `ranks` is that list (empty: all ranks 0, 1, 2 ...
/// in order). Index of a rank in the place = its position in the list; coordinate = index / stride % size.
struct Axis {
  const char* name = "";
  int size = 1, stride = 1, id = -1;
  std::span<const int> ranks = {};

  /// Position of a rank in the place, -1 if it is not in the place.
  constexpr int position(int rank) const {
    if (ranks.empty()) return rank;
    for (size_t i = 0; i < ranks.size(); ++i)
      if (ranks[i] == rank) return int(i);
    return -1;
  }
  constexpr int rank_at(int position) const { return ranks.empty() ? position : ranks[size_t(position)]; }
  constexpr int coordinate(int rank) const { return position(rank) / stride % size; }
  constexpr int peer(int rank, int coordinate_of_peer) const {
    return rank_at(position(rank) + (coordinate_of_peer - coordinate(rank)) * stride);
  }
};

inline constexpr int kMaxGroupAxes = 4;

/// Up to four axes of one place, outer first, taken as one: the participants of a collective. One Axis is a Group too;
/// a Group without axes is the rank alone.
struct Group {
  Axis axes[kMaxGroupAxes];
  int naxes = 0;

  constexpr Group() = default;
  constexpr Group(const Axis& axis) : axes{axis}, naxes(1) {}
  constexpr Group(std::initializer_list<Axis> list) {
    for (const Axis& axis : list) axes[naxes++] = axis;
  }
  constexpr int size() const {
    int n = 1;
    for (int a = 0; a < naxes; ++a) n *= axes[a].size;
    return n;
  }
  /// Mixed radix, the last axis fastest.
  constexpr int index(int rank) const {
    int i = 0;
    for (int a = 0; a < naxes; ++a) i = i * axes[a].size + axes[a].coordinate(rank);
    return i;
  }
  constexpr int coordinate(int index, int axis) const {
    for (int a = naxes - 1; a > axis; --a) index /= axes[a].size;
    return index % axes[axis].size;
  }
  /// The rank that has index i in the group of `rank`.
  constexpr int peer(int rank, int i) const {
    for (int a = 0; a < naxes; ++a) rank = axes[a].peer(rank, coordinate(i, a));
    return rank;
  }
};

constexpr int64_t round_up(int64_t bytes, int64_t unit) { return (bytes + unit - 1) / unit * unit; }
inline constexpr int64_t kAlign = 256, kPage = 4096;

/// A tensor in one of three memories: offset in bytes and number of elements. Emitted code writes an offset as the end
/// or the offset of another tensor, so that a changed size changes one line.
template <class T>
struct Place {
  int64_t offset, count;
  constexpr int64_t end() const { return offset + round_up(count * int64_t{sizeof(T)}, kAlign); }
};
/// Own memory belongs to one rank.
template <class T>
struct Own : Place<T> {
  /// Elements first .. first + n: one chunk, or one of several buffers.
  constexpr Own part(int64_t first, int64_t n) const { return {this->offset + first * int64_t{sizeof(T)}, n}; }
};
/// A window lies at the same offset on every rank of every program, and peers read and write it.
template <class T>
struct Window : Place<T> {
  constexpr Window part(int64_t first, int64_t n) const { return {this->offset + first * int64_t{sizeof(T)}, n}; }
};
/// A constant in the rank's image of the weights.
template <class T>
struct Weight : Place<T> {};

/// Where the weights of layers lie: the first layer has number `first`, and each next layer's weights lie `apart` bytes
/// further on.
struct Layers {
  int first;
  int64_t apart;
};
/// A weight that each layer has. `end` is the end of the first layer's weight.
template <class T>
struct LayerWeights : Place<T> {
  Layers layers;
  constexpr Weight<T> operator[](int layer) const {
    return {this->offset + (layer - layers.first) * layers.apart, this->count};
  }
};

/// `count` flags: "element i is done in this iteration". Each element is signalled once per iteration. With a group,
/// each rank of the group signals its own flags, and a wait is for all of them. Without a group, it orders two streams
/// of one rank. The slots of a signal with a group are the same in all programs of an executable.
struct Signal {
  int slot, count;
  Group group = {};
  bool in_kernel = false;  // on a device, without a group: a kernel signals it or waits for it
  constexpr int end() const { return slot + count; }
};

enum class ReduceOp : uint8_t { Sum, Max, Min, Prod };

/// One dimension of a strided copy, in elements.
struct Dim {
  int64_t extent = 1, src_stride = 0, dst_stride = 0;
};
inline constexpr int kMaxDims = 6;

/// Ragged slices: on dimension `dim` of the exchange, coordinate r holds clamp(extent - r * block, 0, block) elements.
struct Clip {
  int dim = -1;
  int64_t extent = 0, block = 0;
  constexpr int64_t valid(int64_t index) const {
    const int64_t left = extent - index * block;
    return left < 0 ? 0 : left < block ? left : block;
  }
};

/// The elements that one rank pulls from each peer p of a group. me and p are indices in the group, me.a and p.a their
/// coordinates on the group's axis a:
///   dst[sum_a p.a * dst_by_peer[a] + sum_d i_d * dst_stride_d]  =  src_of_p[sum_a me.a * src_by_me[a] + sum_d i_d *
///   src_stride_d]
/// for all i_d < extent_d. `by_peer` clips one extent to the elements that peer p holds, `by_me` one to those that this
/// rank holds.
struct Exchange {
  Dim dims[kMaxDims] = {};
  int64_t src_by_me[kMaxGroupAxes] = {}, dst_by_peer[kMaxGroupAxes] = {};
  Clip by_peer = {}, by_me = {};
};

/// One message of a transfer: a strided box, offsets and strides in elements. from = to is a copy.
struct Message {
  int from, to;
  int64_t src, dst;
  Dim dims[kMaxDims] = {};
};

/// A table of messages between two places, sent once per micro-batch. It owns two flags per micro-batch: the sender's
/// "source ready" and the receiver's "all pulled". Slots are the same in all programs.
struct Transfer {
  int slot, micro_batches;
  std::span<const Message> messages;
  constexpr int end() const { return slot + 2 * micro_batches; }
};

/// The elements that a running sum adds: all up to its own, or (exclusive) without its own; from the first, or
/// (reverse) from the last. `product`: it multiplies instead.
struct ScanOrder {
  bool exclusive = false, reverse = false, product = false;
};

}  // namespace weft
