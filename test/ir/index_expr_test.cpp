// The index algebra against brute force: random sums, digits, and chains of reshapes and transposes.
#include "ir/kernel/index_expr.h"

#include <doctest/doctest.h>

#include <map>
#include <random>

#include "ir/type.h"

using namespace weftc;

namespace {
using Values = std::map<std::string, int64_t>;

int64_t value_of(const IndexExpr& expr, const Values& values) {
  int64_t sum = expr.constant();
  for (const IndexExpr::Term& t : expr.terms()) {
    if (!t.atom->is_digit()) {
      sum += t.coefficient * values.at(t.atom->text);
      continue;
    }
    int64_t inner = value_of(t.atom->of, values) / t.atom->divisor;
    if (t.atom->modulus) inner %= t.atom->modulus;
    sum += t.coefficient * inner;
  }
  return sum;
}

int64_t pick(std::mt19937& random, int64_t low, int64_t high) {
  return low + static_cast<int64_t>(random() % static_cast<uint64_t>(high - low + 1));
}

bool has_digit(const IndexExpr& expr) {
  for (const IndexExpr::Term& t : expr.terms())
    if (t.atom->is_digit()) return true;
  return false;
}
}  // namespace

TEST_CASE("index algebra: digits of random sums have the values of plain arithmetic") {
  std::mt19937 random(1);
  for (int round = 0; round < 3000; ++round) {
    const int64_t extents[] = {pick(random, 1, 8), pick(random, 1, 8), pick(random, 1, 3)};
    const IndexExpr i = index_variable("i", 0, extents[0] - 1), j = index_variable("j", 0, extents[1] - 1);
    const IndexExpr n = index_variable("n", 0, (extents[2] - 1) * 4, 4);
    const int64_t c[] = {pick(random, 0, 24), pick(random, 0, 24), pick(random, 0, 3), pick(random, 0, 9)};
    const int64_t a = pick(random, 1, 12), b = pick(random, 0, 12), a2 = pick(random, 1, 6), b2 = pick(random, 0, 6);
    const IndexExpr sum = i * c[0] + j * c[1] + n * c[2] + c[3];
    const IndexExpr first = digit(sum, a, b), second = digit(first * a2 + j, a2, b2),
                    third = first * a + digit(sum, 1, a);
    for (int64_t x = 0; x < extents[0]; ++x)
      for (int64_t y = 0; y < extents[1]; ++y)
        for (int64_t z = 0; z < extents[2]; ++z) {
          const Values values = {{"i", x}, {"j", y}, {"n", z * 4}};
          const int64_t plain = x * c[0] + y * c[1] + z * 4 * c[2] + c[3];
          const int64_t q = b ? plain / a % b : plain / a, q2 = (q * a2 + y) / a2;
          REQUIRE(value_of(sum, values) == plain);
          REQUIRE(value_of(first, values) == q);
          REQUIRE(first.low() <= q);
          REQUIRE(first.high() >= q);
          REQUIRE(value_of(second, values) == (b2 ? q2 % b2 : q2));
          REQUIRE(value_of(third, values) == q * a + plain % a);
        }
  }
}

TEST_CASE("index algebra: random chains of reshapes and transposes equal the reference") {
  std::mt19937 random(2);
  for (int round = 0; round < 400; ++round) {
    Dims dims = {pick(random, 1, 4), pick(random, 1, 6), pick(random, 1, 4)};
    const int64_t count = element_count(dims);
    const IndexExpr linear = index_variable("i", 0, count - 1);
    IndexList index = unravel(linear, dims);
    std::vector<Dims> positions(static_cast<size_t>(count));  // the reference: the index tuple of each element
    for (int64_t e = 0; e < count; ++e)
      for (int64_t d = 0, rest = e, s = count; d < 3; ++d) s /= dims[d], positions[e].push_back(rest / s), rest %= s;
    for (int step = 0; step < 4; ++step) {
      const size_t x = random() % dims.size(), y = random() % dims.size();
      std::swap(dims[x], dims[y]), std::swap(index[x], index[y]);
      for (Dims& p : positions) std::swap(p[x], p[y]);
      Dims to = {count};
      for (int64_t f = 2; f < 5; ++f)
        if (to.back() % f == 0 && random() % 2) to.back() /= f, to.push_back(f);
      index = unravel(linear_index(index, dims), to);
      for (Dims& p : positions) {
        const Dims strides = strides_of(dims), to_strides = strides_of(to);
        int64_t at = 0;
        for (size_t d = 0; d < dims.size(); ++d) at += p[d] * strides[d];
        p.clear();
        for (size_t d = 0; d < to.size(); ++d) p.push_back(at / to_strides[d] % to[d]);
      }
      dims = to;
      for (int64_t e = 0; e < count; ++e)
        for (size_t d = 0; d < dims.size(); ++d) REQUIRE(value_of(index[d], {{"i", e}}) == positions[e][d]);
    }
  }
}

TEST_CASE("index algebra: a round trip through heads is affine again") {
  const IndexExpr i = index_variable("i", 0, 128 * 768 - 1);
  CHECK(linear_index(unravel(i, {128, 12, 64}), {128, 12, 64}).text() == "i");
  CHECK(linear_index(unravel(linear_index(unravel(i, {1, 128, 768}), {1, 128, 768}), {128, 768}), {128, 768}).text() ==
        "i");
  const IndexExpr row = index_variable("row", 0, 127), head = index_variable("head", 0, 11),
                  d = index_variable("d", 0, 63);
  const IndexList split = unravel(row * 768 + head * 64 + d, {128, 12, 64});
  CHECK(split[0].text() == "row");
  CHECK(split[1].text() == "head");
  CHECK(split[2].text() == "d");
}

TEST_CASE("index algebra: a column that moves in panels of 16 keeps its head within a panel") {
  const IndexExpr n = index_variable("n0", 0, 752, 16) + index_variable("j", 0, 15);
  CHECK(quotient(n, 64).text() == "(n0 / 64)");
  CHECK(remainder(n, 64).text() == "(n0 % 64) + j");
  CHECK(!has_digit(quotient(n, 64) * 64 + remainder(n, 64)));
}
