// Scatter, assemble and reshard on random layouts: the three agree on what a layout means (L3).
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>

#include "ir/evaluate/evaluate.h"
#include "test/ir/random_layout.h"

namespace weftc {

using Kind = AxisState::Kind;

TEST_CASE("evaluate: assemble undoes scatter") {
  Random random(1);
  int ragged = 0, nested = 0, varying = 0;
  for (int round = 0; round < 4000; ++round) {
    const Mesh mesh = random_mesh(random);
    TensorType type{random.chance(70) ? DType::F32 : DType::I32, shape_of(random_dims(random)), {}};
    random_layout(random, type, mesh);
    for (int d = 0; d < type.ndim(); ++d) {
      const std::vector<Digit> digits = digits_of(type.layout, d, mesh);
      ragged += is_ragged(type.shape[d].bound, digits);
      nested += digits.size() > 1;
    }
    varying += type.layout.has(Kind::V);
    const Tensor global = random_tensor(random, type.dtype, stacked_dims(type, mesh));
    std::string why;
    const std::optional<Tensor> back = assemble(scatter(global, type, mesh), type, mesh, why);
    CAPTURE(describe(type, mesh));
    CAPTURE(why);
    REQUIRE(back);
    CHECK(same_elements(*back, global));
  }
  // The generator must not lose the hard cases.
  CHECK(ragged > 100);
  CHECK(nested > 30);
  CHECK(varying > 100);
}

TEST_CASE("evaluate: local tensors hold the elements at their indices") {
  Random random(2);
  for (int round = 0; round < 1000; ++round) {
    const Mesh mesh = random_mesh(random);
    TensorType type{DType::I64, shape_of({12, 5}), {}};
    random_layout(random, type, mesh, {.partial = false, .varying = false});
    Tensor global(DType::I64, {12, 5});
    for (int64_t i = 0; i < global.size(); ++i) global.integers[i] = i;
    const Locals locals = scatter(global, type, mesh);
    for (int rank = 0; rank < mesh_size(mesh); ++rank) {
      const Coordinates at = coordinates_of(mesh, rank);
      const auto rows = held_indices(12, digits_of(type.layout, 0, mesh), at);
      const auto columns = held_indices(5, digits_of(type.layout, 1, mesh), at);
      REQUIRE(locals[rank].dims == local_dims(type, mesh, at));
      for (Index i(locals[rank].dims); i.more(); i.next())
        REQUIRE(locals[rank].integers[i.linear()] == rows[i[0]] * 5 + columns[i[1]]);
    }
  }
}

/// Local tensors of a value whose partial parts are all different.
static Locals random_locals(Random& random, const TensorType& type, const Mesh& mesh) {
  TensorType copies = type;
  for (int a = type.layout.size() - 1; a >= 0; --a)
    if (type.layout[a].is(Kind::P)) copies.layout.set(a, AxisState::varying());
  return scatter(random_tensor(random, type.dtype, stacked_dims(copies, mesh)), copies, mesh);
}

static bool may_become(const AxisState& from, const AxisState& to) {
  if (from.is(Kind::V)) return to.is(Kind::V);
  if (to.is(Kind::P)) return from.is(Kind::R) || from == to;
  return !to.is(Kind::V);
}

TEST_CASE("evaluate: reshard keeps the global value, for all pairs of layouts") {
  Random random(3);
  int pairs[4][4] = {};
  for (int round = 0; round < 6000; ++round) {
    const Mesh mesh = random_mesh(random);
    TensorType from{random.chance(70) ? DType::F64 : DType::I16, shape_of(random_dims(random)), {}}, to = from;
    random_layout(random, from, mesh);
    random_layout(random, to, mesh);
    bool possible = true;
    for (int a = 0; a < static_cast<int>(mesh.size()); ++a)
      possible = possible && may_become(from.layout[a], to.layout[a]);
    if (!possible) continue;
    for (int a = 0; a < static_cast<int>(mesh.size()); ++a)
      if (mesh[a].size > 1) ++pairs[static_cast<int>(from.layout[a].kind)][static_cast<int>(to.layout[a].kind)];
    const Locals before = random_locals(random, from, mesh);
    std::string why;
    const std::optional<Tensor> expected = assemble(before, from, mesh, why);
    REQUIRE(expected);
    const std::optional<Tensor> got = assemble(reshard(before, from, to, mesh), to, mesh, why);
    CAPTURE(describe(from, mesh));
    CAPTURE(describe(to, mesh));
    CAPTURE(why);
    REQUIRE(got);
    CHECK(same_elements(*got, *expected));
  }
  const int r = 0, s = 1, p = 2;
  for (const auto& [x, y] : std::vector<std::pair<int, int>>{{r, r}, {r, s}, {s, r}, {s, s}, {p, r}, {p, s}, {r, p}})
    CHECK(pairs[x][y] > 30);
}

TEST_CASE("evaluate: an all-reduce over a varying axis reduces unrelated copies, in rank order") {
  const Mesh mesh{{"tp", 3}};
  TensorType from{DType::F32, shape_of({2}), {}}, to = from;
  from.layout.set(0, AxisState::varying());
  Tensor stack(DType::F32, {3, 2});
  // 1e30 - 1e30 + 1 is 1 only from the left.
  stack.real = {1e30, 1, -1e30, 2, 1, 3};
  const Locals sums = reshard(scatter(stack, from, mesh), from, to, mesh);
  for (const Tensor& sum : sums) CHECK(sum.real == std::vector<double>{1, 6});
  const Locals largest = reshard(scatter(stack, from, mesh), from, to, mesh, ReduceOp::Max);
  for (const Tensor& most : largest) CHECK(most.real == std::vector<double>{1e30, 3});
}

TEST_CASE("evaluate: assemble demands equal copies and says which differ") {
  const Mesh mesh{{"dp", 2}, {"tp", 2}};
  TensorType type{DType::F32, shape_of({4}), {}};
  type.layout.set(1, AxisState::sliced(0, 2));
  Tensor global(DType::F32, {4});
  global.real = {1, 2, std::nan(""), 4};
  Locals locals = scatter(global, type, mesh);
  std::string why;
  CHECK(assemble(locals, type, mesh, why));
  locals[3].real[1] = 5;
  CHECK_FALSE(assemble(locals, type, mesh, why));
  CHECK(why == "the copies at (dp 0, tp 1) and (dp 1, tp 1) differ");
  locals[3] = Tensor(DType::F32, {1});
  CHECK_FALSE(assemble(locals, type, mesh, why));
  CHECK(why == "rank 3 holds 1 where its layout says 2");
}

TEST_CASE("evaluate: the identity of max and min is right for integers") {
  Tensor t(DType::I8, {1});
  fill_identity(t, ReduceOp::Max);
  CHECK(t.integers[0] == -128);
  fill_identity(t, ReduceOp::Min);
  CHECK(t.integers[0] == 127);
  Tensor u(DType::U64, {1});
  fill_identity(u, ReduceOp::Min);
  Tensor five(DType::U64, {1});
  five.integers[0] = 5;
  accumulate(u, 0, five, 0, ReduceOp::Min);
  CHECK(u.integers[0] == 5);
}

}  // namespace weftc
