// How the elements of a tensor lie in memory: the order of its dimensions, and blocks of them. Weights and buffers
// share this type. It changes neither shape nor layout, and is chosen after fusion for the strategies of kernels.
//
//   storage of                       parts         position of an element
//   [k, n] row-major                 0 1           k * N + n
//   [k, n] in panels of 16 columns   1/16 0 1%16   (n / 16) * (K * 16) + k * 16 + n % 16, columns padded with zeros
//   an image [n, c, h, w], channels  0 2 3 1       ((n * H + h) * W + w) * C + c
//   innermost
//   the same, channels 16 .. 31 of   0 2 3 1       ((n * H + h) * W + w) * 48 + 16 + c
//   an image with 48
//
// Filters of Winograd's minimal filtering are stored as points computed from them, which are more than their elements.
// Parts refer to the dimensions after that.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "ir/kernel/index_expr.h"
#include "ir/type.h"

namespace weftc {

/// The elements start .. start + count - 1 along a dimension with `extent` elements: an operand of a Concat in its
/// result.
struct Stripe {
  int dim = 0;
  int64_t start = 0, count = 0, extent = 0;

  int64_t end() const { return start + count; }
  bool operator==(const Stripe&) const = default;
  auto operator<=>(const Stripe&) const = default;
  /// The same elements in a larger tensor, if the whole dimension is itself a stripe of it along the same dimension.
  Stripe within(const Stripe& outer) const { return {dim, outer.start + start, count, outer.extent}; }
};

struct Storage {
  /// A digit of a dimension's index: index / block, below the next coarser block of the same dimension.
  struct Part {
    int dim = 0;
    int64_t block = 1;
    int64_t count = 0;  // number of values of the digit if blocks do not divide each other: each last block is padded
    bool operator==(const Part&) const = default;
  };
  std::vector<Part> parts;  // outer first; empty: row-major
  /// Dimensions of run-time length take the room of their bounds. Strides are then constants, and a cache that grows
  /// keeps its elements in place. Otherwise such a tensor is dense.
  bool by_bounds = false;
  /// For filters whose last two dimensions are windows of 3 x 3. Each is stored as the (n + 2) x (n + 2) points for n x
  /// n outputs at a time (backend/winograd_filters.h). 0: elements are stored as they are.
  int64_t winograd_tile = 0;
  /// Set if the tensor is a stripe of a larger one, which has this storage.
  std::optional<Stripe> stripe = {};

  bool is_row_major() const { return parts.empty(); }
  /// False if elements are not stored as they are, or each block is padded: only packing knows the positions.
  bool has_positions() const;
  bool operator==(const Storage&) const = default;

  /// Dimensions in another order, outer first.
  static Storage permuted(const std::vector<int>& order);
  /// An image [n, c, ...] with its channels innermost.
  static Storage channels_last(int ndim);
  /// The same for channels in groups of `channels`: the group innermost, the channel of a group after the image.
  static Storage groups_last(int ndim, int64_t channels);
  /// The matrix of dimensions k and n in panels of `width` columns, each with all of its rows. There is one such matrix
  /// for each index of the other dimensions.
  static Storage panels(int ndim, int k_dim, int n_dim, int64_t width);

  /// The extents in memory: those of the tensor, except for windows stored as points.
  Dims stored_dims(Dims dims) const;
  /// The number of values of the part in a tensor of `dims`. The last block of a dimension may be padded; such a
  /// dimension does not have run-time length.
  Scale extent(size_t part, const IndexDims& dims) const;
  /// Number of elements to allocate, padding included.
  int64_t elements(const Dims& dims) const;
  /// The position of an element, in elements from the beginning. Points are not elements.
  IndexExpr offset(const IndexDims& dims, const IndexList& index) const;
  /// The distance in elements between neighbouring indices of each dimension; all 0 if dimensions are stored in blocks.
  Dims strides(Dims dims) const;
  /// The same for a shape with run-time lengths.
  std::vector<Length> strides(const Shape& shape) const;
  /// "row-major"; "1/16 0 1%16"; "row-major by bounds"; "0 2 3 1, 16 .. 31 of 48 along 1". Texts are equal if and only
  /// if storages are.
  std::string text() const;

 private:
  IndexExpr offset_in_whole(IndexDims dims, IndexList index) const;
};

}  // namespace weftc
