// The packed contraction against sums in double, for extents around the sizes of its tiles.
#include "weft/contract.h"

#include <doctest/doctest.h>

#include <cmath>
#include <cstring>
#include <vector>

#include "../larger.h"
#include "random_values.h"

using namespace weft;

namespace {

/// max |got - a @ b| over elements, where b is [k][n].
template <class T>
double error_of(const std::vector<T>& got, const T* a, const T* b, int64_t m, int64_t n, int64_t k) {
  double error = 0;
  for (int64_t i = 0; i < m; ++i)
    for (int64_t j = 0; j < n; ++j) {
      double want = 0;
      for (int64_t l = 0; l < k; ++l) want += double(a[i * k + l]) * double(b[l * n + j]);
      error = larger(error, std::fabs(want - double(got[size_t(i * n + j)])));
    }
  return error;
}

template <class T>
auto store_into(std::vector<T>& y, int64_t n, int64_t offset = 0) {
  return [&y, n, offset](int64_t m, int64_t n0, auto width, const T* sums) {
    for (int64_t j = 0; j < width; ++j) y[size_t(offset + m * n + n0 + j)] += sums[j];  // twice put would show
  };
}

template <class T>
void check_packed(Team& team, int64_t m, int64_t n, int64_t k, double bound) {
  const std::vector<T> a = random_values<T>(m * k, 1), b = random_values<T>(k * n, 2);
  std::vector<T> packed(size_t(packed_count(n, k))), transposed(a.size());
  pack_panels(Unpacked<T>{b.data(), 1, n}, n, k, packed.data());
  for (int64_t i = 0; i < m; ++i)
    for (int64_t l = 0; l < k; ++l) transposed[size_t(l * m + i)] = a[size_t(i * k + l)];
  std::vector<T> y(size_t(m * n)), z = y, w = y;
  contract<T>(team, {m, n, k}, Rows<T>{a.data(), k}, packed.data(), store_into(y, n));
  contract_few<T>(team, {m, n, k}, Strided<T>{transposed.data(), 1, m}, packed.data(), store_into(z, n));
  contract<T>(
      team, {m, n, k}, [&](int64_t row) { return a.data() + row * k; }, packed.data(), store_into(w, n));
  CAPTURE(m);
  CAPTURE(n);
  CAPTURE(k);
  CHECK(error_of(y, a.data(), b.data(), m, n, k) < bound);
  CHECK(z == y);
  CHECK(w == y);
}

}  // namespace

TEST_CASE("contract: packed operand, extents around the tile sizes") {
  Team team(2);
  for (const int64_t m : {1, 2, 3, 4, 5, 6, 7, 11, 13, 25, 130})
    for (const int64_t n : {1, 15, 16, 17, 32, 33, 50}) check_packed<float>(team, m, n, 37, 1e-5);
  for (const int64_t k : {0, 1, 7, 8, 9, 1024, 1025, 1500}) check_packed<float>(team, 9, 35, k, 1e-4);
  check_packed<double>(team, 13, 35, 1100, 1e-12);
  check_packed<double>(team, 1, 16, 20, 1e-13);
}

TEST_CASE("contract: fewer steps than the operand was packed with") {
  Team team(2);
  const int64_t m = 7, n = 50, k = 21, packed_k = 24;
  const std::vector<float> a = random_values<float>(m * k, 1), b = random_values<float>(packed_k * n, 2);
  std::vector<float> packed(size_t(packed_count(n, packed_k))), y(size_t(m * n));
  pack_panels(Unpacked<float>{b.data(), 1, n}, n, packed_k, packed.data());
  contract<float>(team, {m, n, k, packed_k}, Rows<float>{a.data(), k}, packed.data(), store_into(y, n));
  CHECK(error_of(y, a.data(), b.data(), m, n, k) < 1e-5);
}

/// The product with an operand that is stored in 16 bits has the bits of the product with the same numbers as floats.
template <class W>
static void check_stored_in_16_bits() {
  Team team(2);
  for (int64_t m : {1, 3, 7, 130})
    for (int64_t n : {16, 50, 130})
      for (int64_t k : {3, 64, 1500}) {
        const std::vector<float> a = random_values<float>(m * k, 1), b = random_values<float>(k * n, 2);
        std::vector<float> packed(size_t(packed_count(n, k)));
        pack_panels(Unpacked<float>{b.data(), 1, n}, n, k, packed.data());
        packed[5] = 1e-6f, packed[6] = 70000.0f;  // subnormal as a half, and too large for one
        const std::vector<W> stored(packed.begin(), packed.end());
        for (size_t i = 0; i < packed.size(); ++i) packed[i] = float(stored[i]);
        std::vector<float> y(size_t(m * n)), z = y, few = y, batch = y;
        const Rows<float> rows{a.data(), k};
        contract<float>(team, {m, n, k}, rows, packed.data(), store_into(y, n));
        contract<float>(team, {m, n, k}, rows, stored.data(), store_into(z, n));
        contract_few<float>(team, {m, n, k}, rows, stored.data(), store_into(few, n));
        contract_packed_batch<float>(
            team, 1, {m, n, k}, [&](int64_t) { return rows; }, [&](int64_t) { return stored.data(); },
            [&](int64_t, int64_t row, int64_t n0, auto width, const float* sums) {
              store_into(batch, n)(row, n0, width, sums);
            });
        const auto has_bits_of_y = [&](const std::vector<float>& other) {
          return std::memcmp(other.data(), y.data(), y.size() * sizeof(float)) == 0;
        };
        CAPTURE(m);
        CAPTURE(n);
        CAPTURE(k);
        CHECK(has_bits_of_y(z));
        CHECK(has_bits_of_y(few));
        CHECK(has_bits_of_y(batch));
      }
}

TEST_CASE("contract: a packed operand in 16 bits") {
  check_stored_in_16_bits<bfloat16>();
  check_stored_in_16_bits<half>();
}

TEST_CASE("contract: the number of threads does not change a bit") {
  Team one(1), three(3);
  const int64_t m = 200, n = 70, k = 300;
  const std::vector<float> a = random_values<float>(m * k, 3), packed = random_values<float>(packed_count(n, k), 4);
  std::vector<float> y(size_t(m * n)), z = y;
  contract<float>(one, {m, n, k}, Rows<float>{a.data(), k}, packed.data(), store_into(y, n));
  contract<float>(three, {m, n, k}, Rows<float>{a.data(), k}, packed.data(), store_into(z, n));
  CHECK(y == z);
}

TEST_CASE("contract: a row has the same bits however many rows there are") {
  Team team(1);
  for (const int64_t k : {5, 300, 1500})
    for (const int64_t n : {10, 70, 200}) {
      const std::vector<float> a = random_values<float>(14 * k, 3), b = random_values<float>(k * n, 4);
      std::vector<float> packed(size_t(packed_count(n, k)));
      pack_panels(Unpacked<float>{b.data(), 1, n}, n, k, packed.data());
      std::vector<float> all(size_t(14 * n));
      contract<float>(team, {14, n, k}, Rows<float>{a.data(), k}, packed.data(), store_into(all, n));
      for (int64_t m = 1; m < 14; ++m) {
        std::vector<float> some(size_t(m * n)), batch = some;
        contract_few<float>(team, {m, n, k}, Rows<float>{a.data(), k}, packed.data(), store_into(some, n));
        CHECK(std::equal(some.begin(), some.end(), all.begin()));
        const auto row = [&](int64_t) { return Rows<float>{a.data(), k}; };
        const auto column = [&](int64_t) { return Unpacked<float>{b.data(), 1, n}; };
        const auto put = store_into(batch, n);
        contract_batch<float>(team, 1, {m, n, k}, row, column, [&](int64_t, auto... at) { put(at...); });
        CHECK(batch == some);
      }
    }
}

TEST_CASE("contract: an operand that comes again is gone through from its end") {
  for (const int threads : {1, 3})
    for (const int64_t n : {10, 70, 200, 1000}) {
      Team team(threads);
      const int64_t k = 40;
      const std::vector<float> a = random_values<float>(k, 3), packed = random_values<float>(packed_count(n, k), 4);
      std::vector<float> first;
      std::vector<int64_t> begins;  // of what is put first each time
      for (int time = 0; time < 4; ++time) {
        std::vector<float> y(static_cast<size_t>(n));
        int64_t begin = -1;
        auto store = store_into(y, n);
        contract_few<float>(team, {1, n, k}, Rows<float>{a.data(), k}, packed.data(),
                            [&](int64_t m, int64_t n0, auto width, const float* sums) {
                              if (threads == 1 && begin < 0) begin = n0;
                              store(m, n0, width, sums);
                            });
        if (time == 0) first = y;
        CHECK(y == first);
        begins.push_back(begin);
      }
      const bool turns = threads == 1 && n == 1000;  // the others have one group of panels, or none
      CHECK((begins[0] == begins[2] && begins[1] == begins[3]));
      if (turns) CHECK(begins[1] > begins[0]);
    }
}

TEST_CASE("contract: panels are kept as long as the matrix is the same") {
  const int64_t n = 37, k = 21;
  std::vector<float> b = random_values<float>(n * k, 1);
  const std::vector<float> other = random_values<float>(n * k, 2);
  std::vector<float> want(size_t(packed_count(n, k))), want_other = want;
  pack_panels(Unpacked<float>{b.data(), 1, n}, n, k, want.data());
  pack_panels(Unpacked<float>{other.data(), 1, n}, n, k, want_other.data());
  KeptPanels kept(int64_t(want.size() * sizeof(float)));
  const auto holds = [&](const std::vector<float>& matrix, const std::vector<float>& panels) {
    const float* at = keep_panels(kept, Unpacked<float>{matrix.data(), 1, n}, n, k);
    return std::equal(panels.begin(), panels.end(), at);
  };
  CHECK(holds(b, want));
  b[0] += 1;  // which nobody does while panels are kept: it shows that they are
  CHECK(holds(b, want));
  CHECK(holds(other, want_other));
  CHECK_FALSE(holds(b, want));
}

TEST_CASE("contract: batches of operands that are packed, and packed on the fly, plain and transposed") {
  Team team(2);
  struct Case {
    int64_t m, n, k;
  };
  for (const Case c :
       {Case{5, 19, 30}, Case{1, 40, 8}, Case{20, 33, 1200}, Case{2, 16, 16}, Case{1, 150, 9}, Case{3, 150, 9}}) {
    constexpr int64_t kBatch = 3;
    const std::vector<float> a = random_values<float>(kBatch * c.m * c.k, 5),
                             b = random_values<float>(kBatch * c.k * c.n, 6);
    std::vector<float> t(b.size()), y(size_t(kBatch * c.m * c.n)), z = y;
    for (int64_t i = 0; i < kBatch; ++i)
      for (int64_t l = 0; l < c.k; ++l)
        for (int64_t j = 0; j < c.n; ++j) t[size_t((i * c.n + j) * c.k + l)] = b[size_t((i * c.k + l) * c.n + j)];
    const auto a_of = [&](int64_t i) { return Rows<float>{a.data() + i * c.m * c.k, c.k}; };
    const auto run = [&](const std::vector<float>& from, int64_t n_stride, int64_t k_stride, std::vector<float>& to) {
      contract_batch<float>(
          team, kBatch, {c.m, c.n, c.k}, a_of,
          [&](int64_t i) {
            return Unpacked<float>{from.data() + i * c.k * c.n, n_stride, k_stride};
          },
          [&](int64_t i, int64_t m, int64_t n0, auto width, const float* sums) {
            for (int64_t j = 0; j < width; ++j) to[size_t((i * c.m + m) * c.n + n0 + j)] += sums[j];
          });
    };
    run(b, 1, c.n, y);
    run(t, c.k, 1, z);
    const int64_t panels = packed_count(c.n, c.k + 3);  // with room for more steps than the product takes
    std::vector<float> packed(size_t(kBatch * panels)), w(y.size());
    for (int64_t i = 0; i < kBatch; ++i)
      for (int64_t n = 0; n < c.n; ++n)
        for (int64_t l = 0; l < c.k; ++l)
          packed[size_t(i * panels + (n / kPanel * (c.k + 3) + l) * kPanel + n % kPanel)] =
              b[size_t((i * c.k + l) * c.n + n)];
    contract_packed_batch<float>(
        team, kBatch, {c.m, c.n, c.k, c.k + 3}, a_of, [&](int64_t i) { return packed.data() + i * panels; },
        [&](int64_t i, int64_t m, int64_t n0, auto width, const float* sums) {
          for (int64_t j = 0; j < width; ++j) w[size_t((i * c.m + m) * c.n + n0 + j)] += sums[j];
        });
    for (int64_t i = 0; i < kBatch; ++i) {
      const std::vector<float> part(y.begin() + i * c.m * c.n, y.begin() + (i + 1) * c.m * c.n);
      CHECK(error_of(part, a.data() + i * c.m * c.k, b.data() + i * c.k * c.n, c.m, c.n, c.k) < 1e-4);
    }
    CHECK(y == z);
    CHECK(y == w);
  }
}
