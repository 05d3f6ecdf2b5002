// States across iterations: they grow, are saved and loaded, and share lengths with inputs.
#include <cstdint>

#include "test/runtime_lib/program_run.h"

using namespace weft;
using namespace weft::test;

TEST_CASE("program: states grow, are saved, loaded, and refuse to outgrow their bound") {
  const Folder folder;
  write_floats(folder / "x0.npy", {2, 3}, {0, 1, 2, 3, 4, 5});
  write_floats(folder / "x1.npy", {1, 3}, {6, 7, 8});
  const std::string base =
      "--input 'x=" + folder / "x{i}.npy'" + " --output-dir " + folder.path + " --save-state " + folder / "state";
  CHECK(run("cache", base + " --iterations 2 --warmup 1 --poison").code == 0);
  CHECK(read_floats(folder / "present.npy", {3, 3}) == some_floats(9));
  CHECK(read_floats(folder / "state/past.npy", {3, 3}) == some_floats(9));
  CHECK(*reinterpret_cast<const int32_t*>(NpyFile(folder / "next.npy", DType::I32).data()) == 2);
  CHECK(run("cache", base + " --load-state " + folder / "state").code == 0);  // 3 + 2 rows
  const std::vector<float> longer = read_floats(folder / "present.npy", {5, 3});
  CHECK(longer[8] == 8);
  CHECK(longer[14] == 5);
  const Finished outgrown = run("cache", base + " --load-state " + folder / "state");
  CHECK(outgrown.code == 1);
  CHECK(contains(outgrown, "state 'past' ('present') would have 7 elements, more than its bound of 5"));
}

TEST_CASE("program: a state begins as its --input, before what --load-state says") {
  const Folder folder;
  write_floats(folder / "x.npy", {1, 3}, {6, 7, 8});
  write_floats(folder / "begin.npy", {2, 3}, {0, 1, 2, 3, 4, 5});
  const std::string base = "--input x=" + folder / "x.npy" + " --output-dir " + folder.path;
  CHECK(run("cache", base + " --save-state " + folder / "state").code == 0);
  CHECK(read_floats(folder / "present.npy", {1, 3}) == std::vector<float>{6, 7, 8});
  const std::string begin = " --input past=" + folder / "begin.npy";
  CHECK(run("cache", base + begin + " --load-state " + folder / "state").code == 0);
  CHECK(read_floats(folder / "present.npy", {3, 3}) == some_floats(9));
  write_floats(folder / "begin.npy", {6, 3}, some_floats(18));
  CHECK(run("cache", base + begin).code == 1);  // longer than its bound
  const Finished again = run("cache", base + " --input 'past=" + folder / "begin{i}.npy'");
  CHECK(again.code == 1);
  CHECK_MESSAGE(contains(again, "'past' is a state, which is given once, before the first invocation"), again.text);
}

TEST_CASE("program: lengths that are one dim of the model agree") {
  const Folder folder;
  const std::string state = folder / "state";
  REQUIRE(system(("mkdir " + state).c_str()) == 0);
  const auto lengths = [&](int64_t keys, int64_t values, int64_t mask) {
    write_floats(state + "/keys.npy", {keys}, some_floats(keys));
    write_floats(state + "/values.npy", {values}, some_floats(values));
    write_floats(folder / "mask.npy", {mask}, some_floats(mask));
  };
  const std::string load = " --load-state " + state, masked = "--input mask=" + folder / "mask.npy" + load;
  lengths(2, 2, 2);
  CHECK(run("shared", masked).code == 0);
  CHECK(run("shared", "--random-inputs 1 --iterations 2" + load).code == 0);  // the mask is as long as the states
  CHECK(run("shared", "--random-inputs 1 --iterations 4").code == 0);
  CHECK(run("shared", "--random-inputs 1 --iterations 5").code == 1);  // outgrown
  const Finished stays = run("shared", masked + " --iterations 2");
  CHECK(stays.code == 1);
  CHECK_MESSAGE(contains(stays, "'mask': dimension 0 has length 2, but 'keys': dimension 0 has length 3"), stays.text);
  lengths(2, 3, 3);
  const Finished states = run("shared", masked);
  CHECK(states.code == 1);
  CHECK_MESSAGE(contains(states, "values.npy (state 'values'): dimension 0 has length 3, but "), states.text);
  CHECK_MESSAGE(contains(states, "keys.npy (state 'keys'): dimension 0 has length 2"), states.text);
  lengths(2, 2, 3);
  const Finished input = run("shared", masked);
  CHECK(input.code == 1);
  CHECK_MESSAGE(contains(input, "mask.npy (input 'mask'): dimension 0 has length 3"), input.text);
}
