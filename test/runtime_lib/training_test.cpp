// The data of a training: the order of samples, batches from files, complete checkpoints.
#include <limits>
#include <set>

#include "runtime_lib/src/finite_check.h"
#include "runtime_lib/src/training_data.h"
#include "test/runtime_lib/program_run.h"

using namespace weft;
using namespace weft::test;

namespace {

constexpr Own<float> kX{0, 6};
constexpr Own<int64_t> kLabels{kX.end(), 2};
constexpr Port kInputs[] = {{"x", {2, 3}, kX}, {"labels", {2}, kLabels}};
constexpr Port kOutputs[] = {{"loss", {}, kX}};
constexpr Program kPrograms[] = {{.inputs = kInputs, .outputs = kOutputs, .own_bytes = kLabels.end()}};
constexpr Executable kProgram{.name = "fed", .programs = kPrograms};

std::string refusal(const Options& options) {
  try {
    TrainingData(kProgram, options, {"--data", options.data});
    return "";
  } catch (const Failure& failure) {
    return failure.text;
  }
}

void write_labels(const std::string& file, const std::vector<int64_t>& labels) {
  write_npy(file, DType::I64, {int64_t(labels.size())}, reinterpret_cast<const char*>(labels.data()));
}

}  // namespace

TEST_CASE("training: each epoch is a permutation of its own") {
  for (const int64_t count : {1, 2, 3, 7, 64, 1000}) {
    std::set<int64_t> seen, again;
    int64_t moved = 0;
    for (int64_t i = 0; i < count; ++i) {
      seen.insert(shuffled(i, count, 5, 0));
      again.insert(shuffled(i, count, 5, 1));
      moved += shuffled(i, count, 5, 0) != shuffled(i, count, 5, 1);
    }
    CHECK(int64_t(seen.size()) == count);
    CHECK(int64_t(again.size()) == count);
    CHECK(*seen.begin() == 0);
    CHECK(*seen.rbegin() == count - 1);
    if (count >= 64) CHECK(moved > count / 2);
  }
}

TEST_CASE("training: batches hold samples of all files in one order") {
  const Folder folder;
  write_floats(folder / "x.npy", {5, 3}, some_floats(15));
  write_labels(folder / "l.npy", {0, 1, 2, 3, 4});
  Options options;
  options.data = {{"x", folder / "x.npy"}, {"labels", folder / "l.npy"}};
  TrainingData data(kProgram, options, {"--data", options.data});
  CHECK(data.steps_per_epoch() == 2);  // the fifth sample fills no batch
  for (const int64_t step : {0, 1, 2}) {
    const std::vector<WholeTensor> batch = data.batch_of(step);
    const auto* x = reinterpret_cast<const float*>(batch[0].elements);
    const auto* labels = reinterpret_cast<const int64_t*>(batch[1].elements);
    for (int i = 0; i < 2; ++i) {
      CHECK(labels[i] == step % 2 * 2 + i);
      CHECK(x[3 * i] == 3 * float(labels[i]));
    }
  }
  TrainingData shuffling(kProgram, options, {"--data", options.data, true, 9});
  for (int64_t step = 0; step < 6; ++step) {
    const std::vector<WholeTensor> batch = shuffling.batch_of(step);
    const auto* x = reinterpret_cast<const float*>(batch[0].elements);
    const auto* labels = reinterpret_cast<const int64_t*>(batch[1].elements);
    for (int i = 0; i < 2; ++i) CHECK(x[3 * i] == 3 * float(labels[i]));
  }
}

TEST_CASE("training: files that fit no input, or not each other") {
  const Folder folder;
  write_floats(folder / "x.npy", {5, 3}, some_floats(15));
  write_floats(folder / "wide.npy", {5, 4}, some_floats(20));
  write_floats(folder / "one.npy", {1, 3}, some_floats(3));
  write_labels(folder / "l.npy", {0, 1, 2, 3, 4});
  write_labels(folder / "four.npy", {0, 1, 2, 3});
  write_labels(folder / "single.npy", {0});
  const auto with = [&](const std::string& x, const std::string& labels) {
    Options options;
    options.data = {{"x", folder / x}, {"labels", folder / labels}};
    return refusal(options);
  };
  CHECK(with("x.npy", "l.npy").empty());
  CHECK(with("wide.npy", "l.npy").find("shape 5x4; 'x' takes samples of 3") != std::string::npos);
  CHECK(with("x.npy", "four.npy").find("has 4 samples, ") != std::string::npos);
  CHECK(with("one.npy", "single.npy").find("has 1 sample, a step takes 2") != std::string::npos);
  CHECK(with("x.npy", "none.npy").find("none.npy") != std::string::npos);
  Options missing;
  missing.data = {{"x", folder / "x.npy"}};
  CHECK(refusal(missing).find("input 'labels' (i64, 2) is missing: --data labels=FILE.npy") != std::string::npos);
  missing.data["label"] = folder / "l.npy";
  missing.data["labels"] = folder / "l.npy";
  CHECK(refusal(missing).find("there is no input 'label' (did you mean 'labels'?)") != std::string::npos);
}

TEST_CASE("training: the first number that is not finite, NaN before infinities") {
  const auto found = [](const std::vector<float>& numbers, const float* before = nullptr) {
    return find_not_finite(DType::F32, reinterpret_cast<const char*>(numbers.data()), int64_t(numbers.size()),
                           reinterpret_cast<const char*>(before));
  };
  std::vector<float> numbers(200, std::numeric_limits<float>::max());
  CHECK(found(numbers).element == -1);
  CHECK(found({}).element == -1);
  numbers[70] = -std::numeric_limits<float>::infinity();
  CHECK(found(numbers).element == 70);
  CHECK_FALSE(found(numbers).is_nan);
  const std::vector<float> before = numbers;
  numbers[199] = std::numeric_limits<float>::quiet_NaN();
  CHECK(found(numbers).element == 199);
  CHECK(found(numbers).is_nan);
  CHECK(found(before, before.data()).element == -1);  // it was there before
  CHECK(found(numbers, before.data()).element == 199);
  const uint16_t halves[] = {0x7bff, 0x7c00, 0x7c01}, bfloats[] = {0x7f7f, 0xff80, 0xff81};
  const double doubles[] = {1e300, -std::numeric_limits<double>::infinity()};
  CHECK(find_not_finite(DType::F16, reinterpret_cast<const char*>(halves), 3).element == 2);
  CHECK(find_not_finite(DType::F16, reinterpret_cast<const char*>(halves), 2).element == 1);
  CHECK(find_not_finite(DType::BF16, reinterpret_cast<const char*>(bfloats), 3).element == 2);
  CHECK(find_not_finite(DType::BF16, reinterpret_cast<const char*>(bfloats), 2).element == 1);
  CHECK(find_not_finite(DType::F64, reinterpret_cast<const char*>(doubles), 2).element == 1);
  CHECK(find_not_finite(DType::I64, reinterpret_cast<const char*>(doubles), 2).element == -1);
}

TEST_CASE("training: a program that does not train is not fed") {
  const Finished run = weft::test::run("mlp1", "--data x=x.npy --steps 3");
  CHECK(run.code == 2);
  CHECK_MESSAGE(contains(run, "this program does not train"), run.text);
}
