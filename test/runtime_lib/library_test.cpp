// The class that implements the C functions of a library, on two ranks that are threads of the test.
#include "weft/library.h"

#include <doctest/doctest.h>

#include <cstring>
#include <string>
#include <vector>

#include "weft/host.h"

using namespace weft;

namespace {

constexpr int64_t kRows = 4;
constexpr int kRanks[] = {0, 1};
constexpr Axis tp{.name = "tp", .size = 2, .stride = 1, .id = 0, .ranks = kRanks};
constexpr Own<float> x{0, kRows}, y{x.end(), kRows / 2}, total{y.end(), 1};

/// Each rank doubles its half of x; a state counts the runs.
void run_doubled(Rank& r) {
  r.step({0, "double", "Mul double"}, [&] {
    for (int64_t i = 0; i < kRows / 2; ++i) r[y][i] = 2 * r[x][r.rank * kRows / 2 + i] + r[total][0];
    r[total][0] += 1;
    if (r[x][0] < 0) {
      IndexRange looked_up;
      looked_up.add(7);
      r.indices_of("node 'look'").demand(looked_up, 5);
    }
  });
}

constexpr Stream kStreams[] = {{"compute", true}};
constexpr Slice kHalves[] = {{0, kRows / 2, tp}};
constexpr Port kInputs[] = {{"x", {kRows}, x}, {"total", {}, total}};
constexpr Port kOutputs[] = {{"y", {kRows}, y, {.slices = kHalves}}, {"next", {}, total}};
constexpr State kStates[] = {{"total", "next"}};
constexpr Program kPrograms[] = {
    {.streams = kStreams, .inputs = kInputs, .outputs = kOutputs, .own_bytes = total.end(), .run = run_doubled}};
constexpr Executable kDoubled{.name = "doubled", .world = 2, .programs = kPrograms, .states = kStates};

int set(Library& library, const char* name, const std::vector<float>& values, const std::vector<int64_t>& shape) {
  return library.set_input(name, {values.data(), values.size() * sizeof(float), shape.data(), int(shape.size())});
}

std::vector<float> output_of(Library& library) {
  TensorView tensor{};
  REQUIRE(library.get_output("y", &tensor) == 0);
  REQUIRE(tensor.ndim == 1);
  const float* data = static_cast<const float*>(tensor.data);
  return {data, data + tensor.shape[0]};
}

bool says(const Library& library, const char* part) { return strstr(library.error(), part) != nullptr; }

}  // namespace

TEST_CASE("library: inputs stay, states go on from run to run until they are set or begin anew") {
  Library library(kDoubled, 1, Library::Ranks::Threads);
  REQUIRE(library.error() == std::string());
  REQUIRE(set(library, "x", {1, 2, 3, 4}, {kRows}) == 0);
  for (const float runs : {0, 1, 2}) {
    REQUIRE(library.run() == 0);
    CHECK(output_of(library) == std::vector<float>{2 + runs, 4 + runs, 6 + runs, 8 + runs});
  }
  REQUIRE(set(library, "total", {10}, {}) == 0);
  REQUIRE(library.run() == 0);
  CHECK(output_of(library) == std::vector<float>{12, 14, 16, 18});
  REQUIRE(library.reset() == 0);
  REQUIRE(library.run() == 0);
  CHECK(output_of(library) == std::vector<float>{2, 4, 6, 8});
}

TEST_CASE("library: what is wrong is said, and the model runs on") {
  Library library(kDoubled, 1, Library::Ranks::Threads);
  CHECK(library.run() == 1);
  CHECK(says(library, "input 'x' (f32, 4) is not set"));
  CHECK(set(library, "X", {1}, {1}) == 1);
  CHECK(says(library, "there are: x, total"));
  CHECK(set(library, "x", {1}, {1}) == 1);
  CHECK(set(library, "x", {1}, {kRows}) == 1);
  CHECK(says(library, "'x': 4 bytes; shape 4 of f32 has 16"));
  TensorView tensor{};
  CHECK(library.get_output("y", &tensor) == 1);
  REQUIRE(set(library, "x", {-1, 2, 3, 4}, {kRows}) == 0);
  CHECK(library.run() == 1);
  CHECK(says(library, "node 'look': index 7 lies outside of a dimension of 5 elements"));
  REQUIRE(set(library, "x", {1, 2, 3, 4}, {kRows}) == 0);
  REQUIRE(library.run() == 0);
  CHECK(output_of(library) == std::vector<float>{2, 4, 6, 8});
}

TEST_CASE("library: a process that no launcher started is no rank of a job") {
  Library library(kDoubled, 1, Library::Ranks::OneOfJob);
  CHECK(says(library, "no launcher has started this process"));
  CHECK(library.run() == 6);
}
