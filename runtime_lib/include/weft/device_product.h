// Tiled products on a device through shared memory, for kernels that cannot call a library, and for convolutions.
#pragma once
#include <utility>

#include "weft/grid.h"
#include "weft/sum_type.h"

// Arrays of a thread stay in registers only where every loop over them is unrolled: hence WEFT_UNROLL.

namespace weft {

namespace detail {
template <class Tile, class Sum>
class ThreadSums;
}  // namespace detail

/// The tile that a block computes at once: M rows by N columns, ThreadM x ThreadN for each thread.
template <int M, int N, int ThreadM, int ThreadN>
struct ProductTile {
  static constexpr int kM = M, kN = N, kThreadM = ThreadM, kThreadN = ThreadN;
  static constexpr int kK = 16;  // products between two barriers
  static constexpr int kColumns = N / ThreadN, kThreads = M / ThreadM * kColumns;
  template <class Sum>
  using Sums = detail::ThreadSums<ProductTile, Sum>;
};

/// `batch` products of rows x depth by depth x columns.
struct Product {
  int64_t batch, rows, columns;
  int depth;
};

namespace detail {

/// The sums of a block's tile, by thread. Each operand has two buffers in shared memory: one is read while the other is
/// filled for the next products.
template <class Tile, class Sum>
class ThreadSums {
 public:
  // Rows are padded, against bank conflicts while they are stored by columns.
  static constexpr int kRowStride = Tile::kM + 4, kRowElements = Tile::kK * kRowStride;
  static constexpr int kColumnElements = Tile::kK * Tile::kN,
                       kBytes = 2 * (kRowElements + kColumnElements) * sizeof(Sum);
  static constexpr int kSums = Tile::kThreadM * Tile::kThreadN;

  WEFT_DEVICE explicit ThreadSums(unsigned char* memory)
      : rows_(reinterpret_cast<Sum*>(memory)), columns_(rows_ + 2 * kRowElements) {}

  WEFT_DEVICE void clear() {
    WEFT_UNROLL
    for (int e = 0; e < kSums; ++e) sums_[e] = 0;
  }
  WEFT_DEVICE void keep_row(int buffer, int m, int k, Sum value) {
    rows_[buffer * kRowElements + k * kRowStride + m] = value;
  }
  WEFT_DEVICE void keep_column(int buffer, int k, int n, Sum value) {
    columns_[buffer * kColumnElements + k * Tile::kN + n] = value;
  }

  WEFT_DEVICE void add(int buffer) {
    constexpr int kWidth = 16 / int(sizeof(Sum));
    const Sum* rows = rows_ + buffer * kRowElements + int(threadIdx.x) / Tile::kColumns * Tile::kThreadM;
    const Sum* columns = columns_ + buffer * kColumnElements + int(threadIdx.x) % Tile::kColumns;
    WEFT_UNROLL
    for (int k = 0; k < Tile::kK; ++k) {
      alignas(16) Sum a[Tile::kThreadM];
      Sum b[Tile::kThreadN];
      WEFT_UNROLL
      for (int i = 0; i < Tile::kThreadM; i += kWidth) store(a + i, load<kWidth>(rows + k * kRowStride + i));
      WEFT_UNROLL
      for (int j = 0; j < Tile::kThreadN; ++j) b[j] = columns[k * Tile::kN + j * Tile::kColumns];
      WEFT_UNROLL
      for (int e = 0; e < kSums; ++e) sums_[e] += a[e / Tile::kThreadN] * b[e % Tile::kThreadN];
    }
  }

  /// The sums of the parts of a product of very many terms, which lose digits in one sum. The sums of so many parts are
  /// added up in a wider type. A thread has no registers left for them: they lie in its memory.
  class Parts {
   public:
    static constexpr int kMost = 32;
    /// The terms of a part, in whole rounds. A few more than one part has are cut in halves.
    static WEFT_DEVICE int terms(int depth) {
      constexpr int kTerms = 128, kFew = 64, kRounds = 2 * Tile::kK;
      return depth > kFew && depth < 2 * kTerms ? (depth + kRounds - 1) / kRounds * Tile::kK : kTerms;
    }
    WEFT_DEVICE void take(ThreadSums& of) {
      WEFT_UNROLL
      for (int e = 0; e < kSums; ++e) {
        parts_[e] = count_ ? parts_[e] + of.sums_[e] : of.sums_[e];
        of.sums_[e] = 0;
      }
      if (++count_ == kMost) widen();
    }
    /// Puts the sums of all parts into `of`.
    WEFT_DEVICE void finish(ThreadSums& of) {
      if (count_ == 0 && !has_all_) return;
      take(of);
      if (has_all_) {
        if (count_) widen();
        WEFT_KEEP_LOOP
        for (int e = 0; e < kSums; ++e) parts_[e] = Sum(all_[e]);
      }
      WEFT_UNROLL
      for (int e = 0; e < kSums; ++e) of.sums_[e] = parts_[e];
    }

   private:
    WEFT_DEVICE void widen() {
      WEFT_KEEP_LOOP
      for (int e = 0; e < kSums; ++e) all_[e] = (has_all_ ? all_[e] : 0) + parts_[e];
      count_ = 0, has_all_ = true;
    }
    int count_ = 0;
    bool has_all_ = false;
    volatile Sum parts_[kSums];
    volatile SumOfSums<Sum> all_[kSums];
  };

  template <class F>
  WEFT_DEVICE void each(F&& f) const {
    const int row = int(threadIdx.x) / Tile::kColumns * Tile::kThreadM, column = int(threadIdx.x) % Tile::kColumns;
    WEFT_UNROLL
    for (int e = 0; e < kSums; ++e) f(row + e / Tile::kThreadN, column + e % Tile::kThreadN * Tile::kColumns, sums_[e]);
  }

 private:
  static_assert(Tile::kThreadM % 4 == 0);

  Sum *const rows_, *const columns_;
  Sum sums_[kSums];  // by row and column
};

/// Products of a kernel run in sequence and share this much memory, if it is enough.
inline constexpr int kProductRoom = 21 * 1024;

/// The computation of one tile by a block. `rows.at(m, k)` is an element of row m of the tile. `columns.at(k)` is an
/// element of the column that this thread loads. Both are zero outside of the operand.
template <class Tile, class Sum, class Rows, class Columns>
class ProductBlock {
 public:
  WEFT_DEVICE ProductBlock(int depth, Rows& rows, Columns& columns)
      : depth_(depth),
        rows_(rows),
        columns_(columns),
        sums_(shared<unsigned char, (Sums::kBytes > kProductRoom ? Sums::kBytes : kProductRoom), -3>()) {}

  /// The sums of the tile at which both operands stand.
  WEFT_DEVICE void sum() {
    fetch(0);
    sums_.clear();
    keep(0);
    __syncthreads();
    typename Sums::Parts parts;
    const int part = Sums::Parts::terms(depth_);
    for (int k = 0, end = part; k < depth_; k += Tile::kK) {
      const int now = k / Tile::kK % 2;
      const bool goes_on = k + Tile::kK < depth_;
      if (goes_on) fetch(k + Tile::kK);
      sums_.add(now);
      if (goes_on) keep(1 - now);
      if (goes_on && k + Tile::kK == end) parts.take(sums_), end += part;
      __syncthreads();
    }
    parts.finish(sums_);
  }

  /// Calls f(row of the tile, column of the tile, sum) for this thread's share.
  template <class F>
  WEFT_DEVICE void each(F&& f) {
    sums_.each(f);
  }

  /// The column of the tile whose elements the thread loads.
  static WEFT_DEVICE int own_column() { return int(threadIdx.x) % Tile::kN; }

 private:
  using Sums = typename Tile::template Sums<Sum>;
  static constexpr int kRowLoads = Tile::kM * Tile::kK / Tile::kThreads, kRowStep = Tile::kThreads / Tile::kK;
  static constexpr int kColumnLoads = Tile::kN * Tile::kK / Tile::kThreads, kColumnStep = Tile::kThreads / Tile::kN;
  static_assert(Tile::kThreads % Tile::kN == 0 && Tile::kThreads % Tile::kK == 0);

  WEFT_DEVICE static int first_row() { return int(threadIdx.x) / Tile::kK; }
  WEFT_DEVICE static int own_k() { return int(threadIdx.x) % Tile::kK; }
  WEFT_DEVICE static int first_k() { return int(threadIdx.x) / Tile::kN; }

  WEFT_DEVICE void fetch(int k) {
    WEFT_UNROLL
    for (int i = 0; i < kRowLoads; ++i) next_rows_[i] = rows_.at(first_row() + i * kRowStep, k + own_k());
    WEFT_UNROLL
    for (int i = 0; i < kColumnLoads; ++i) next_columns_[i] = columns_.at(k + first_k() + i * kColumnStep);
  }

  WEFT_DEVICE void keep(int buffer) {
    WEFT_UNROLL
    for (int i = 0; i < kRowLoads; ++i) sums_.keep_row(buffer, first_row() + i * kRowStep, own_k(), next_rows_[i]);
    WEFT_UNROLL
    for (int i = 0; i < kColumnLoads; ++i)
      sums_.keep_column(buffer, first_k() + i * kColumnStep, own_column(), next_columns_[i]);
  }

  const int depth_;
  Rows& rows_;
  Columns& columns_;
  Sums sums_;
  decltype(std::declval<Rows&>().at(0, 0)) next_rows_[kRowLoads];
  decltype(std::declval<Columns&>().at(0)) next_columns_[kColumnLoads];
};

/// Rows of the first operand from `first` on, elements as a function of batch, row and k.
template <class Element>
struct ProductRows {
  using T = std::invoke_result_t<Element, int64_t, int64_t, int64_t>;
  const Product& product;
  Element element;
  int64_t batch = 0, first = 0;

  WEFT_DEVICE T at(int m, int k) const {
    return first + m < product.rows && k < product.depth ? element(batch, first + m, int64_t(k)) : T(0.0f);
  }
};

/// One column of the second operand, elements as a function of batch, k and column.
template <class Element>
struct ProductColumn {
  using T = std::invoke_result_t<Element, int64_t, int64_t, int64_t>;
  const Product& product;
  Element element;
  int64_t batch = 0, column = 0;

  WEFT_DEVICE T at(int k) const {
    return column < product.columns && k < product.depth ? element(batch, int64_t(k), column) : T(0.0f);
  }
};

}  // namespace detail

/// Calls put(batch, row, column, sum) once for each element of y[batch][row][column], the sum over k of left(batch,
/// row, k) * right(batch, k, column). Both have type Sum, or with a TensorTile its operand type. Blocks have
/// Tile::kThreads threads and take tiles in turn. Terms are added in the order of k (of groups of 16 with tensor
/// cores), for any grid. A barrier of the block separates two products.
template <class Tile, class Sum, class Left, class Right, class Put>
WEFT_DEVICE void multiply(const Product& product, Left&& left, Right&& right, Put&& put) {
  const int64_t row_tiles = (product.rows + Tile::kM - 1) / Tile::kM;
  const int64_t column_tiles = (product.columns + Tile::kN - 1) / Tile::kN;
  detail::ProductRows<Left&> rows{product, left};
  detail::ProductColumn<Right&> columns{product, right};
  detail::ProductBlock<Tile, Sum, decltype(rows), decltype(columns)> block(product.depth, rows, columns);
  for (int64_t tile = blockIdx.x; tile < product.batch * row_tiles * column_tiles; tile += gridDim.x) {
    const int64_t batch = tile / (row_tiles * column_tiles), first_column = tile / row_tiles % column_tiles * Tile::kN;
    rows.batch = columns.batch = batch;
    rows.first = tile % row_tiles * Tile::kM;
    columns.column = first_column + block.own_column();
    block.sum();
    block.each([&](int row, int column, Sum sum) {
      const int64_t m = rows.first + row, n = first_column + column;
      if (m < product.rows && n < product.columns) put(batch, m, n, sum);
    });
  }
}

}  // namespace weft
