// Equality of results, and programs that end in different ways.
#include "cli/comparison.h"

#include <doctest/doctest.h>

#include <cmath>
#include <filesystem>

#include "cli/options.h"
#include "cli/process.h"
#include "test/scheduled.h"

namespace weftc {

static Tensor reals(std::vector<double> values, DType dtype = DType::F32) {
  Tensor tensor(dtype, {static_cast<int64_t>(values.size())});
  tensor.real = std::move(values);
  return tensor;
}

TEST_CASE("errors are relative to the largest element") {
  CHECK(compare("y", reals({100, 0.005}), reals({100, 0}), 1e-4).detail.empty());
  CHECK(compare("y", reals({100, 0.05}), reals({100, 0}), 1e-4).exit_code == kMismatch);
  CHECK(compare("y", reals({100, 0.05}), reals({100, 0}), 1e-2).exit_code == 0);
  CHECK(compare("y", reals({NAN, 1}), reals({NAN, 1}), 1e-4).detail.empty());
  CHECK(compare("y", reals({NAN, 1}), reals({1, 1}), 1e-4).exit_code == kMismatch);
}

TEST_CASE("the coarsest rounding in the model counts, wherever it stands, unless the command line says otherwise") {
  const auto tolerance = [](const std::string& to, const Options& options) {
    const auto made =
        test::prepare("<ir_version: 10, opset_import: [\"\" : 20]>\nm (float[4] x) => (float[4] y)\n" +
                          ("{ c = Cast<to = " + to + ">(x) d = Mul(c, c) e = Cast<to = 1>(d) y = Neg(e) }"),
                      "", "");
    REQUIRE_MESSAGE(made->ok(), made->diags.text());
    return tolerance_of(options, made->module->graph);
  };
  CHECK(tolerance("1", {}) == 1e-4);
  CHECK(tolerance("7", {}) == 1e-4);
  CHECK(tolerance("10", {}) == 5e-3);
  CHECK(tolerance("16", {}) == 2e-2);
  Options stated;
  stated.tolerance = 1e-6;
  CHECK(tolerance("10", stated) == 1e-6);
}

TEST_CASE("another type or shape is a mismatch that says so") {
  CHECK(compare("y", reals({1}), reals({1, 2}), 1e-4).detail == "output 'y' is f32[1], expected f32[2]");
  CHECK(compare("y", reals({1}, DType::F64), reals({1}), 1e-4).exit_code == kMismatch);
}

TEST_CASE("what differs is named with its place and both values") {
  const auto detail = [](const Tensor& a, const Tensor& b) { return compare("y", a, b, 1e-4).detail; };
  Tensor result(DType::F32, {2, 2}), expected(DType::F32, {2, 2});
  result.real = {1, 2, NAN, INFINITY};
  expected.real = {1, 9, 0.5, 4};
  CHECK(detail(result, expected) ==
        "output 'y' cannot be compared: at [1,0] it is nan, expected 0.5, the first of 2 such elements of 4");
  CHECK(detail(reals({INFINITY}), reals({-INFINITY})).find("at [0] it is inf, expected -inf") != std::string::npos);
  result.real = {1, 2, 3, 4};
  expected.real = {1, 2, 3.1, 4.5};
  CHECK(detail(result, expected) == "output 'y' differs: relative error 1.1e-01, most at [1,1] it is 4, expected 4.5");
  CHECK(detail(Tensor::ints({1, 2}), Tensor::ints({1, 3})) ==
        "output 'y' differs: at [1] it is 2, expected 3, the first of 1 such elements of 2");
}

TEST_CASE("seeded tensors repeat, and differ by name") {
  const Tensor a = seeded_tensor("a", DType::F32, {64}, 1);
  CHECK(a.real == seeded_tensor("a", DType::F32, {64}, 1).real);
  CHECK(a.real != seeded_tensor("b", DType::F32, {64}, 1).real);
  for (const double value : a.real) CHECK((value >= -1 && value < 1));
}

TEST_CASE("programs that end, fail, hang, or are not there") {
  CHECK(run_program({"sh", "-c", "echo out; echo err >&2; exit 3"}, 10).exit_code == 3);
  CHECK(run_program({"sh", "-c", "echo out"}, 10).out == "out\n");
  CHECK(run_program({"sh", "-c", "kill -11 $$"}, 10).exit_code == 128 + 11);
  CHECK(run_program({"sh", "-c", "sleep 60 & sleep 60"}, 0.2).exit_code == 124);
  CHECK(run_program({"no-such-program-anywhere"}, 10).exit_code == 127);
}

TEST_CASE("programs whose results are compared find poisoned memory") {
  const WorkFolder folder;
  const Plan plan;
  const std::vector<std::string> shows_arguments = {"sh", "-c", "echo $@ >&2; exit 3", "sh"};
  CHECK(run_on(shows_arguments, plan, {}, folder.path(), 10).detail.find("--poison") != std::string::npos);
}

TEST_CASE("work folders go with their owner") {
  std::string path;
  {
    const WorkFolder folder;
    path = folder.path();
    CHECK(write_file(path + "/a/b", "text").empty());
    CHECK(read_file(path + "/a/b") == "text");
  }
  CHECK_FALSE(std::filesystem::exists(path));
}

}  // namespace weftc
