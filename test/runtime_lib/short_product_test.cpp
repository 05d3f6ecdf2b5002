// Short products against contract(), which they must equal bit by bit, for extents around the sizes of their tiles.
#include "weft/short_product.h"

#include <doctest/doctest.h>

#include <vector>

#include "random_values.h"

using namespace weft;

namespace {

/// Adds twice the sums to what is there: an element that is put twice, or by nobody, differs.
template <class T>
auto add_to(T* y, int64_t n) {
  return [=](int64_t m, int64_t n0, auto width, const T* sums) {
#pragma omp simd
    for (int64_t j = 0; j < width; ++j) y[m * n + n0 + j] += 2 * sums[j];
  };
}

template <class T, int64_t kColumns>
void check_columns(Team& team, int64_t m, int64_t k, int64_t row, int64_t packed_k) {
  const std::vector<T> a = random_values<T>(m * row, 1), b = random_values<T>(k * kColumns, 2);
  std::vector<T> packed(size_t(packed_count(kColumns, packed_k)), T(1000));
  for (int64_t n = 0; n < kColumns; n += kPanel)
    pack_panels(Unpacked<T>{b.data() + n, 1, kColumns}, std::min(kPanel, kColumns - n), k,
                packed.data() + n * packed_k);
  const Contraction extents{m, kColumns, k, packed_k};
  std::vector<T> want(size_t(m * kColumns), T(1)), got = want;
  contract<T>(team, extents, Rows<T>{a.data(), row}, packed.data(), add_to(want.data(), kColumns));
  contract_short<T, kColumns>(team, extents, Rows<T>{a.data(), row}, packed.data(), add_to(got.data(), kColumns));
  CAPTURE(m);
  CAPTURE(k);
  CHECK(got == want);
}

/// Batches, whose second operand is in panels or is brought into them; columns known when compiled, or not.
template <class T, int64_t kColumns>
void check_batch(Team& team, int64_t batch, int64_t m, int64_t n, int64_t k) {
  const std::vector<T> a = random_values<T>(batch * m * k, 3), b = random_values<T>(batch * k * n, 4);
  std::vector<T> packed(size_t(batch * packed_count(n, k)));
  const auto rows = [&](int64_t i) { return Strided<T>{a.data() + i * m * k, 1, m}; };
  const auto columns = [&](int64_t i) { return Unpacked<T>{b.data() + i * k * n, k, 1}; };
  const auto panels = [&](int64_t i) { return packed.data() + i * packed_count(n, k); };
  for (int64_t i = 0; i < batch; ++i) pack_panels(columns(i), n, k, packed.data() + i * packed_count(n, k));
  std::vector<T> want(size_t(batch * m * n), T(1)), got = want, of_packed = want;
  const auto add = [m, n](T* y) {
    return [=](int64_t i, int64_t row, int64_t n0, auto width, const T* sums) {
      add_to(y + i * m * n, n)(row, n0, width, sums);
    };
  };
  const Contraction extents{m, n, k};
  contract_batch<T>(team, batch, extents, rows, columns, add(want.data()));
  contract_short_batch<T, kColumns>(team, batch, extents, rows, columns, add(got.data()));
  contract_short_batch<T, kColumns>(team, batch, extents, rows, panels, add(of_packed.data()));
  CAPTURE(m);
  CAPTURE(n);
  CAPTURE(k);
  CHECK(got == want);
  CHECK(of_packed == want);
}

template <class T, int64_t... kColumns>
void check_all(Team& team, std::integer_sequence<int64_t, kColumns...>) {
  for (const int64_t m : {0, 1, 6, 7, 12, 13, 49, 130, 500}) (check_columns<T, kColumns>(team, m, 9, 9, 9), ...);
  for (const int64_t k : {0, 1, 3, 4, 16, 31, 1024}) (check_columns<T, kColumns>(team, 30, k, k + 3, k + 2), ...);
}

}  // namespace

TEST_CASE("short product: the bits of contract(), for any rows, steps and columns") {
  for (const int threads : {1, 3}) {
    Team team(threads);
    check_all<float>(team, std::integer_sequence<int64_t, 1, 7, 8, 9, 16, 24, 33, 40, 48, 50, 64, 65, 72, 96, 120>{});
    check_all<double>(team, std::integer_sequence<int64_t, 3, 16, 20, 48, 70>{});
  }
}

TEST_CASE("short product: batches, in panels or not, with columns that are known at run time") {
  for (const int threads : {1, 3}) {
    Team team(threads);
    for (const int64_t m : {0, 1, 24, 49, 130})
      for (const int64_t k : {0, 5, 64, 128}) {
        for (const int64_t n : {0, 1, 16, 47, 48, 49, 130}) check_batch<float, 0>(team, 3, m, n, k);
        check_batch<float, 49>(team, 5, m, 49, k);
        check_batch<float, 150>(team, 2, m, 150, k);
        check_batch<double, 33>(team, 2, m, 33, k);
      }
  }
}
