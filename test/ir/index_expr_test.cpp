// The index algebra against brute force: random sums, digits, and chains of reshapes and transposes.
#include "ir/kernel/index_expr.h"

#include <doctest/doctest.h>

#include <map>
#include <random>

#include "ir/type.h"

using namespace weftc;

namespace {
using Values = std::map<std::string, int64_t>;

int64_t value_of(const Scale& scale, const Values& values) {
  int64_t product = scale.number;
  for (const RunLength& length : scale.lengths) product *= values.at(length.name);
  return product;
}

int64_t value_of(const IndexExpr& expr, const Values& values) {
  int64_t sum = expr.constant();
  for (const IndexExpr::Term& t : expr.terms()) {
    if (!t.atom->is_digit()) {
      sum += value_of(t.scale, values) * values.at(t.atom->text);
      continue;
    }
    int64_t inner = value_of(t.atom->of, values) / value_of(t.atom->divisor, values);
    if (t.atom->modulus.number) inner %= value_of(t.atom->modulus, values);
    sum += value_of(t.scale, values) * inner;
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

TEST_CASE("index algebra: a panel lies in one of three projections, and so does every reshape of it") {
  const IndexExpr n = index_variable("n0", 0, 2288, 16) + index_variable("j", 0, 15), m = index_variable("m", 0, 196);
  const IndexList parts = unravel(m * 2304 + n, {197, 3, 768});
  const IndexExpr linear = linear_index({parts[1], parts[0], parts[2]}, {3, 197, 768});
  CHECK(linear.text() == "(n0 / 768) * 151296 + m * 768 + (n0 % 768) + j");
  CHECK(linear_index(unravel(linear, {3, 197, 768}), {3, 197, 768}).text() == linear.text());
}

TEST_CASE("index algebra: rows of a run-time length are affine where memory is dense") {
  const Scale batch = Scale::length("batch", 8), seq = Scale::length("seq", 64);
  const IndexDims three = {batch, seq, 768}, two = {batch * seq, 768};
  const IndexExpr r = index_variable("r", batch * seq), c = index_variable("c", 768);
  const IndexList split = unravel(linear_index({r, c}, two), three);
  CHECK(split[0].text() == "(r / seq)");
  CHECK(split[1].text() == "(r % seq)");
  CHECK(split[2].text() == "c");
  CHECK(linear_index(split, three).text() == "r * 768 + c");
  const IndexExpr b = index_variable("b", batch), s = index_variable("s", seq);
  CHECK(linear_index({b, s, c}, three).text() == "b * seq * 768 + s * 768 + c");
  const IndexList joined = unravel(linear_index({b, s, c}, three), two);
  CHECK(joined[0].text() == "b * seq + s");
  CHECK(joined[1].text() == "c");
  // By bounds it is not: rows of one image follow each other, images do not.
  CHECK(has_digit(linear_index(split, Dims{8, 64, 768})));
}

TEST_CASE("index algebra: heads of a batch of run-time length keep their rows") {
  const Scale batch = Scale::length("batch", 8), seq = Scale::length("seq", 64);
  const IndexDims four = {batch, 12, seq, 64}, three = {batch * 12, seq, 64};
  const IndexExpr x = index_variable("x", batch * 12), s = index_variable("s", seq), d = index_variable("d", 64);
  const IndexList at = unravel(linear_index({x, s, d}, three), four);
  CHECK(at[0].text() == "(x / 12)");
  CHECK(at[1].text() == "(x % 12)");
  CHECK(at[2].text() == "s");
  CHECK(at[3].text() == "d");
  CHECK(linear_index({at[0], at[2], at[1], at[3]}, {batch, seq, 12, 64}).text() ==
        "(x / 12) * seq * 768 + s * 768 + (x % 12) * 64 + d");
}

TEST_CASE("index algebra: groups of channels, whose images a run measures, are affine once their loop is cut") {
  const Scale batch = Scale::length("batch", 3), height = Scale::length("height", 9), width = Scale::length("width", 9);
  const IndexDims grouped = {batch, 2, height * width * 4}, image = {batch, 8, height, width};
  const IndexExpr b = index_variable("b", batch), g = index_variable("g", 2);
  const IndexExpr c = index_variable("c_0", 4) * (height * width) + index_variable("c_1", height * width);
  const IndexList at = unravel(linear_index({b, g, c}, grouped), image);
  CHECK(at[0].text() == "b");
  CHECK(at[1].text() == "g * 4 + c_0");
  CHECK(linear_index({at[0], at[2], at[3], at[1]}, {batch, height, width, 8}).text() ==
        "b * height * width * 8 + c_1 * 8 + g * 4 + c_0");
  // The loop is cut for images of twice the size, whose channels are outside of pairs of pixels.
  const IndexExpr wide = index_variable("c_0", 4) * (height * width * 4) + index_variable("c_1", height * width * 4);
  const IndexExpr element = g * (height * width * 16) + wide + b * (height * width * 32);
  CHECK(quotient(element, height * width * 32).text() == "b");
  CHECK(remainder(element, height * width * 16).text() == "c_0 * height * width * 4 + c_1");
  CHECK(quotient(element + 1, height * width * 32).text() != "b");
}

TEST_CASE("index algebra: random reshapes with run-time lengths equal the reference") {
  std::mt19937 random(3);
  for (int round = 0; round < 600; ++round) {
    const Values lengths = {{"a", pick(random, 1, 4)}, {"b", pick(random, 1, 4)}};
    const Scale a = Scale::length("a", 4), b = Scale::length("b", 4);
    std::vector<Scale> factors = {a, b, pick(random, 1, 3), pick(random, 1, 4)};
    const auto shuffled = [&] {
      std::shuffle(factors.begin(), factors.end(), random);
      IndexDims dims = {1};
      for (const Scale& factor : factors)
        if (random() % 2)
          dims.back() = dims.back() * factor;
        else
          dims.push_back(factor);
      return dims;
    };
    const auto numbers = [&](const IndexDims& dims) {
      Dims values;
      for (const Scale& extent : dims) values.push_back(value_of(extent, lengths));
      return values;
    };
    const IndexDims from = shuffled();
    IndexList index;
    for (size_t d = 0; d < from.size(); ++d) index.push_back(index_variable("i" + std::to_string(d), from[d]));
    const IndexDims to = shuffled(), last = shuffled();
    const IndexList there = unravel(linear_index(index, from), to), further = unravel(linear_index(there, to), last);
    const IndexExpr linear = linear_index(further, last);
    const Dims dims = numbers(from);
    for (int64_t e = 0; e < element_count(dims); ++e) {
      Values values = lengths;
      for (int64_t d = static_cast<int64_t>(dims.size()) - 1, rest = e; d >= 0; rest /= dims[static_cast<size_t>(d--)])
        values["i" + std::to_string(d)] = rest % dims[static_cast<size_t>(d)];
      REQUIRE(value_of(linear, values) == e);
      for (size_t d = 0, inside = 1; d < last.size(); ++d) {
        const size_t at = last.size() - 1 - d, extent = static_cast<size_t>(value_of(last[at], lengths));
        REQUIRE(value_of(further[at], values) == static_cast<int64_t>(static_cast<size_t>(e) / inside % extent));
        REQUIRE(further[at].high() >= value_of(further[at], values));
        inside *= extent;
      }
    }
  }
}
