// How the elements of a tensor lie in memory: the order of its dimensions, and blocks of them. One type for
// weights and buffers; it changes neither shape nor layout. Chosen after fusion by what the strategies of
// kernels want.
//
//   storage of                       parts         position of an element
//   [k, n] row-major                 0 1           k * N + n
//   [k, n] in panels of 16 columns   1/16 0 1%16   (n / 16) * (K * 16) + k * 16 + n % 16, columns padded with zeros
//   an image [n, c, h, w], channels  0 2 3 1       ((n * H + h) * W + w) * C + c
//   innermost
//   the same, channels 16 .. 31 of   0 2 3 1       ((n * H + h) * W + w) * 48 + 16 + c
//   an image with 48
//
// Filters of minimal filtering are stored as numbers computed from them, more than there are elements: their parts
// speak of the dimensions after that.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "ir/kernel/index_expr.h"
#include "ir/type.h"

namespace weftc {

/// The elements start .. start + count - 1 along a dimension that has `extent` of them: an operand of a Concat in its
/// result.
struct Stripe {
  int dim = 0;
  int64_t start = 0, count = 0, extent = 0;

  int64_t end() const { return start + count; }
  bool operator==(const Stripe&) const = default;
  auto operator<=>(const Stripe&) const = default;
  /// The same elements where the whole dimension is a stripe itself, of the same dimension.
  Stripe within(const Stripe& outer) const { return {dim, outer.start + start, count, outer.extent}; }
};

struct Storage {
  /// A digit of a dimension's index: index / block, below the next coarser block of the same dimension.
  struct Part {
    int dim = 0;
    int64_t block = 1;
    int64_t count = 0;  // values of the digit where blocks do not divide each other: the last block of each is padded
    bool operator==(const Part&) const = default;
  };
  std::vector<Part> parts;  // outer first; empty: row-major
  /// Dimensions of run-time length take the room of their bounds, so that strides are numbers, and a cache that grows
  /// keeps its elements where they are. Else such a tensor is as dense as any other.
  bool by_bounds = false;
  /// Of filters whose last two dimensions are windows of 3 x 3: each is stored as the (n + 2) x (n + 2) points that
  /// give n x n outputs at a time (backend/winograd_filters.h). 0: elements are stored as they are.
  int64_t winograd_tile = 0;
  /// The tensor is a stripe of a larger one, which is stored so.
  std::optional<Stripe> stripe = {};

  bool is_row_major() const { return parts.empty(); }
  /// False where elements are not stored as they are, or blocks are padded each: only packing knows where they are.
  bool has_positions() const;
  bool operator==(const Storage&) const = default;

  /// Dimensions in another order, outer first.
  static Storage permuted(const std::vector<int>& order);
  /// An image [n, c, ...] with its channels innermost.
  static Storage channels_last(int ndim);
  /// The same of channels in groups of `channels`: the group innermost, the channel of a group after the image.
  static Storage groups_last(int ndim, int64_t channels);
  /// The matrix of dimensions k and n in panels of `width` columns, each with all of its rows; one such matrix for each
  /// index of the other dimensions.
  static Storage panels(int ndim, int k_dim, int n_dim, int64_t width);

  /// The extents that are stored: those of the tensor, but for windows stored as points.
  Dims stored_dims(Dims dims) const;
  /// How many values the part has in a tensor of `dims`; the last block of a dimension, which is none of run-time
  /// length then, may be padded.
  Scale extent(size_t part, const IndexDims& dims) const;
  /// The elements that memory must have room for, padding included.
  int64_t elements(const Dims& dims) const;
  /// The position of an element, in elements from the beginning. Points are no elements.
  IndexExpr offset(const IndexDims& dims, const IndexList& index) const;
  /// Elements from one index of each dimension to the next; all 0 where dimensions are stored in blocks.
  Dims strides(Dims dims) const;
  /// The same of a shape with run-time lengths.
  std::vector<Length> strides(const Shape& shape) const;
  /// "row-major"; "1/16 0 1%16"; "row-major by bounds"; "0 2 3 1, 16 .. 31 of 48 along 1". Equal storages, and no
  /// others, have equal texts.
  std::string text() const;

 private:
  IndexExpr offset_in_whole(IndexDims dims, IndexList index) const;
};

}  // namespace weftc
