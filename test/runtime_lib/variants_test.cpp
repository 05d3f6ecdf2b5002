// An executable of several variants as one: open dims, the most of each kind of memory, and which variant takes what.
#include "runtime_lib/src/variants.h"

#include <doctest/doctest.h>

#include "runtime_lib/src/checks.h"
#include "runtime_lib/src/ports.h"

using namespace weft;

namespace {

constexpr Own<float> kX{0, 8}, kY{256, 64};
constexpr Bound kOpen[] = {{0, 0}, {1, [](const int64_t* n) { return n[0] + 1; }}};
constexpr const char* kPast[] = {"past"};
constexpr Stream kOne[] = {{"compute"}}, kTwo[] = {{"compute", true}, {"comm"}};

// batch=1 and batch=4: x is [batch, 3], y is [past, past + 1].
constexpr Port kIn1[] = {{"x", {1, 3}, kX}}, kIn4[] = {{"x", {4, 3}, kX}};
constexpr Port kOut[] = {{"y", {8, 9}, kY, {.bounds = kOpen}}};
constexpr Program kProgram1[] = {{.streams = kOne, .inputs = kIn1, .outputs = kOut, .own_bytes = 512, .signals = 3}};
constexpr Program kProgram4[] = {
    {.streams = kTwo, .inputs = kIn4, .outputs = kOut, .own_bytes = 256, .window_bytes = 64}};
constexpr Generation kGeneration = {.tokens = "x", .logits = "y", .room = 4};
constexpr Executable kExecutable1 = {
    .name = "m", .world = 1, .programs = kProgram1, .lengths = kPast, .generation = &kGeneration};
constexpr Executable kExecutable4 = {
    .name = "m", .world = 1, .programs = kProgram4, .lengths = kPast, .generation = &kGeneration};
constexpr DimValue kDims1[] = {{"batch", 1}}, kDims4[] = {{"batch", 4}};
constexpr Variant kVariants[] = {{"batch=1", kDims1, &kExecutable1}, {"batch=4", kDims4, &kExecutable4}};
constexpr Executable kWhole = {.name = "model", .variants = kVariants};

}  // namespace

TEST_CASE("variants: the whole has open dims, and room for each") {
  const WholeExecutable whole(kWhole);
  const Executable& e = whole.get();
  CHECK(std::string_view(e.name) == "model");
  REQUIRE(e.programs.size() == 1);
  const Program& program = e.programs[0];
  CHECK(program.own_bytes == 512);
  CHECK(program.window_bytes == 64);
  CHECK(program.signals == 3);
  REQUIRE(program.streams.size() == 2);
  CHECK(program.streams[0].parallel);
  REQUIRE(e.lengths.size() == 2);
  CHECK(std::string_view(e.lengths[0]) == "batch");
  const Port& x = program.inputs[0];
  CHECK(file_shape(x) == std::vector<int64_t>{4, 3});
  REQUIRE(x.layout.bounds.size() == 1);
  CHECK(x.layout.bounds[0].length.name == 0);
  CHECK_NOTHROW(check_shape(x, {1, 3}, "f"));
  CHECK_THROWS_AS(check_shape(x, {2, 3}, "f"), Failure);
  const Port& y = program.outputs[0];
  REQUIRE(y.layout.bounds.size() == 2);
  CHECK(std::string_view(e.lengths[size_t(y.layout.bounds[0].length.name)]) == "past");
  CHECK(y.layout.bounds[1].length.name == -1);  // computed
  CHECK(e.generation != nullptr);
  CHECK(WholeExecutable(kWhole, false).get().generation == nullptr);
  CHECK(WholeExecutable(kWhole, false).get().variants[1].executable->generation == nullptr);
}

TEST_CASE("variants: the first that takes the lengths of a request is chosen") {
  const WholeExecutable whole(kWhole);
  const auto chosen = [&](int64_t batch) {
    LengthClaims claims(whole.get());
    claims.add({0, 0}, batch, "'x'");
    return choose_variant(whole.get(), claims);
  };
  CHECK(chosen(1) == 0);
  CHECK(chosen(4) == 1);
  CHECK(chosen(-1) == 1);  // nobody has said it
  CHECK_THROWS_AS(chosen(2), Failure);
  CHECK(choose_variant(kExecutable1, LengthClaims(kExecutable1)) == 0);
}

TEST_CASE("variants: of two dims that are one length in each variant, the inputs say both") {
  static constexpr DimValue kOne[] = {{"n", 1}, {"m", 1}}, kFour[] = {{"n", 4}, {"m", 4}};
  static constexpr Variant kTied[] = {{"n=1, m=1", kOne, &kExecutable1}, {"n=4, m=4", kFour, &kExecutable4}};
  const Executable tied = {.name = "tied", .variants = kTied};
  const WholeExecutable whole(tied);
  LengthClaims claims(whole.get());
  claims.add({0, 0}, 1, "'x'");
  CHECK(choose_variant(whole.get(), claims) == 0);
}

TEST_CASE("variants: a dim that is open in some of them and a number in others has its name") {
  static constexpr Bound kBound[] = {{0, 0}};
  static constexpr Port kOpenIn[] = {{"y", {4, 3}, kX, {.bounds = kBound}}}, kFixedIn[] = {{"y", {4, 3}, kX}};
  static constexpr Program kOpenProgram[] = {{.streams = kOne, .inputs = kOpenIn}};
  static constexpr Program kFixedProgram[] = {{.streams = kOne, .inputs = kFixedIn}};
  static constexpr Executable kOpenOne = {.name = "m", .world = 1, .programs = kOpenProgram, .lengths = kPast};
  static constexpr Executable kFixed = {.name = "m", .world = 1, .programs = kFixedProgram};
  static constexpr Variant kMixed[] = {{"batch=1", kDims1, &kOpenOne}, {"batch=4", kDims4, &kFixed}};
  const Executable mixed = {.name = "mixed", .variants = kMixed};
  const WholeExecutable whole(mixed);
  const Port& y = whole.get().programs[0].inputs[0];
  REQUIRE(y.layout.bounds.size() == 1);
  CHECK(std::string_view(whole.get().lengths[size_t(y.layout.bounds[0].length.name)]) == "past");
}
