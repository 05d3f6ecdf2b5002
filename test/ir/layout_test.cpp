// Digit algebra: what check_slices accepts is a partition that nests; what it refuses is not.
#include <doctest/doctest.h>

#include <algorithm>

#include "test/ir/random_layout.h"

namespace weftc {

static std::vector<Coordinates> all_coordinates(const Mesh& mesh) {
  std::vector<Coordinates> all;
  for (int i = 0; i < mesh_size(mesh); ++i) all.push_back(coordinates_of(mesh, i));
  return all;
}

/// Every index has as many holders as there are ranks on the axes that do not slice.
static bool is_partition(int64_t extent, const std::vector<Digit>& digits, const Mesh& mesh, bool equal_shares) {
  std::vector<int> holders(extent, 0);
  const int copies = [&] {
    int n = mesh_size(mesh);
    for (const Digit& d : digits) n /= d.size;
    return n;
  }();
  for (const Coordinates& at : all_coordinates(mesh)) {
    const std::vector<int64_t> held = held_indices(extent, digits, at);
    if (!std::is_sorted(held.begin(), held.end())) return false;
    if (equal_shares && static_cast<int64_t>(held.size()) != buffer_extent(extent, digits)) return false;
    if (static_cast<int64_t>(held.size()) != local_extent(extent, digits, at)) return false;
    for (int64_t i : held) ++holders[i];
  }
  return std::all_of(holders.begin(), holders.end(), [&](int n) { return n == copies; });
}

/// All mixed-radix lists of up to two digits over `extent`.
static std::vector<std::vector<Digit>> digit_lists(int64_t extent, const Mesh& mesh) {
  std::vector<std::vector<Digit>> lists{{}};
  for (int64_t x = 1; x <= extent + 1; ++x) {
    lists.push_back({{0, mesh[0].size, x}});
    for (int64_t y = 1; y <= x; ++y) lists.push_back({{0, mesh[0].size, x}, {1, mesh[1].size, y}});
  }
  return lists;
}

TEST_CASE("layout: accepted slices are equal partitions, or one ragged one") {
  const std::vector<Mesh> meshes{{{"a", 2}, {"b", 2}}, {{"a", 3}, {"b", 2}}, {{"a", 2}, {"b", 3}}};
  for (const Mesh& mesh : meshes)
    for (int64_t extent = 1; extent <= 24; ++extent)
      for (const std::vector<Digit>& digits : digit_lists(extent, mesh)) {
        if (!check_slices(extent, digits).empty()) continue;
        CAPTURE(extent);
        CHECK(is_partition(extent, digits, mesh, !is_ragged(extent, digits)));
      }
}

TEST_CASE("layout: refused slices are no equal partitions, or do not nest") {
  const Mesh mesh{{"a", 2}, {"b", 2}};
  for (int64_t extent = 1; extent <= 16; ++extent)
    for (const std::vector<Digit>& digits : digit_lists(extent, mesh)) {
      if (check_slices(extent, digits).empty()) continue;
      // Slices of equal blocks hold the same coordinate twice; others leave some rank with too little or too much.
      const bool nests = digits.size() < 2 || digits[0].block % (digits[1].block * digits[1].size) == 0;
      CAPTURE(extent);
      CHECK_FALSE((nests && !is_ragged(extent, digits) && is_partition(extent, digits, mesh, true)));
    }
}

TEST_CASE("layout: S(d, E/n) is contiguous, parts give a block of each part") {
  CHECK(held_indices(12, {{0, 4, 3}}, {1}) == std::vector<int64_t>{3, 4, 5});
  // qkv of 12 columns, three parts, two ranks: b = 12 / (3 * 2).
  CHECK(held_indices(12, {{0, 2, 2}}, {1}) == std::vector<int64_t>{2, 3, 6, 7, 10, 11});
}

TEST_CASE("layout: ragged slices end early, perhaps with nothing") {
  const std::vector<Digit> digits{{0, 4, 2}};  // ceil(5 / 4)
  CHECK(is_ragged(5, digits));
  CHECK(check_slices(5, digits).empty());
  CHECK(local_extent(5, digits, {1}) == 2);
  CHECK(local_extent(5, digits, {2}) == 1);
  CHECK(local_extent(5, digits, {3}) == 0);
  CHECK(buffer_extent(5, digits) == 2);
  CHECK(held_indices(5, digits, {2}) == std::vector<int64_t>{4});
  CHECK_FALSE(check_slices(5, {{0, 4, 1}}).empty());
}

TEST_CASE("layout: illegal layouts are named") {
  const Mesh mesh{{"tp", 2}, {"one", 1}};
  const auto message = [&](TensorType type, int axis, AxisState state) {
    type.layout.set(axis, state);
    return check_layout(type, mesh);
  };
  const TensorType type{DType::F32, shape_of({4, 6}), {}};
  CHECK(message(type, 0, AxisState::sliced(1, 3)).empty());
  CHECK(message(type, 0, AxisState::sliced(2, 1)).find("no dimension 2") != std::string::npos);
  CHECK(message(type, 1, AxisState::sliced(0, 4)).find("size 1") != std::string::npos);
  CHECK(message(type, 2, AxisState::varying()).find("more axes") != std::string::npos);
}

TEST_CASE("layout: a run-time length is sliced in the blocks of its bound, over one axis") {
  const Mesh mesh{{"dp", 2}, {"tp", 2}};
  TensorType type{DType::F32, {run_time_extent(8, Length::named("rows", 8)), {6, {}}}, {}};
  type.layout.set(0, AxisState::sliced(0, 4));
  CHECK(check_layout(type, mesh).empty());
  CHECK(is_ragged(type.shape[0], digits_of(type.layout, 0, mesh)));
  type.layout.set(1, AxisState::sliced(0, 2));
  CHECK(check_layout(type, mesh).find("one axis only") != std::string::npos);
  type.layout = {};
  type.layout.set(0, AxisState::sliced(0, 1));
  CHECK(check_layout(type, mesh).find("do not hold") != std::string::npos);
  // The ranks' parts of 5 rows, of 3, and of 0.
  for (const auto& [rows, first, second] : {std::array{5, 4, 1}, std::array{3, 3, 0}, std::array{0, 0, 0}}) {
    CHECK(local_extent(rows, {{0, 2, 4}}, {0}) == first);
    CHECK(local_extent(rows, {{0, 2, 4}}, {1}) == second);
  }
}

TEST_CASE("layout: coordinates and ranks are row-major") {
  const Mesh mesh{{"dp", 2}, {"tp", 3}};
  CHECK(coordinates_of(mesh, 4) == Coordinates{1, 1});
  for (int i = 0; i < mesh_size(mesh); ++i) CHECK(index_of(mesh, coordinates_of(mesh, i)) == i);
}

TEST_CASE("layout: text") {
  const Mesh mesh{{"dp", 2}, {"tp", 2}};
  TensorType type{DType::F32, shape_of({2, 64}), {}};
  CHECK(type_text(type, mesh) == "f32[2, 64]");
  type.layout.set(1, AxisState::sliced(1, 32));
  type.layout.set(0, AxisState::partial(ReduceOp::Max));
  CHECK(type_text(type, mesh) == "f32[2, 64] [dp: P(max), tp: S(1,32)]");
  type.layout.set(1, {});
  type.layout.set(0, {});
  CHECK(type.layout == Layout{});
}

}  // namespace weftc
