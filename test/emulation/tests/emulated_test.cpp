// A whole program over the cuda runtime: two ranks as threads, through their common memory and through NCCL.
#include <doctest/doctest.h>

#include <cmath>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <vector>

#include "processes.h"

namespace {

constexpr int kRows = 8, kDepth = 32, kCols = 48;

/// Files of one run, removed at its end.
struct Folder {
  std::string path;
  Folder() {
    char name[] = "/tmp/emulated-XXXXXX";
    path = mkdtemp(name);
  }
  ~Folder() {
    if (system(("rm -rf '" + path + "'").c_str()) != 0) perror(path.c_str());
  }
  Folder(const Folder&) = delete;
};

/// The numbers at the end of a .npy file.
std::vector<float> read_floats(const std::string& path, size_t count) {
  std::ifstream file(path, std::ios::binary);
  const std::vector<char> bytes((std::istreambuf_iterator<char>(file)), {});
  std::vector<float> out(count, NAN);
  if (bytes.size() >= count * sizeof(float))
    std::copy(bytes.end() - int64_t(count * sizeof(float)), bytes.end(), reinterpret_cast<char*>(out.data()));
  return out;
}

std::vector<float> input() {
  std::vector<float> x(kRows * kDepth);
  for (size_t i = 0; i < x.size(); ++i) x[i] = float(i % 29) / 8 - 1;
  return x;
}

void write_input(const std::string& path) {
  const std::vector<float> x = input();
  std::string header = "{'descr': '<f4', 'fortran_order': False, 'shape': (8, 32), }";
  header.resize(117, ' ');
  std::ofstream file(path, std::ios::binary);
  file << "\x93NUMPY\x01" << '\0' << char(118) << '\0' << header << '\n';
  file.write(reinterpret_cast<const char*>(x.data()), int64_t(x.size() * sizeof(float)));
}

/// The expected result of the program; both ranks add the bias.
std::vector<float> expected() {
  const std::vector<float> x = input();
  std::vector<float> y(kRows * kCols);
  for (int r = 0; r < kRows; ++r) {
    double mean = 0;
    for (int k = 0; k < kDepth; ++k) mean += x[size_t(r * kDepth + k)] / kDepth;
    for (int c = 0; c < kCols; ++c) {
      double sum = 2 * (c / 8.0);
      for (int k = 0; k < kDepth; ++k)
        sum += (x[size_t(r * kDepth + k)] - mean) * ((k * kCols + c) * 7 % 11 - 5) / 16.0;
      y[size_t(r * kCols + c)] = float(sum);
    }
  }
  return y;
}

double largest_difference(const std::vector<float>& a, const std::vector<float>& b) {
  double out = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    const double difference = std::abs(double(a[i]) - double(b[i]));
    out = std::isnan(difference) ? 1e9 : std::max(out, difference);
  }
  return out;
}

void check_run(const std::string& variables) {
  const Folder folder;
  write_input(folder.path + "/x.npy");
  const Outcome out = run_beside(
      "emulation_example",
      "--input x='" + folder.path + "/x.npy' --output-dir '" + folder.path + "' --iterations 3 --poison", variables);
  CAPTURE(variables);
  CAPTURE(out.text);
  CHECK(out.status == 0);
  for (const char* name : {"y", "fused"})
    CHECK(largest_difference(read_floats(folder.path + "/" + name + ".npy", kRows * kCols), expected()) < 1e-4);
}

}  // namespace

TEST_CASE("emulation: a whole program, ranks in one memory, in several orders") {
  for (int seed = 0; seed < 3; ++seed)
    check_run("WEFT_EMULATION_DELAY_US=300 WEFT_EMULATION_SEED=" + std::to_string(seed));
  check_run("WEFT_EMULATION_ORDER=fixed WEFT_EMULATION_WORKERS=1");
  check_run("WEFT_EMULATION_DEVICES=2");
}

TEST_CASE("emulation: a whole program over NCCL") {
  check_run("WEFT_EMULATION_NCCL=1 WEFT_EMULATION_DELAY_US=300");
  const Outcome out =
      run_beside("emulation_example", "--random-inputs 1", "WEFT_EMULATION_NCCL=1 WEFT_EMULATION_NVLINK=0");
  CHECK(out.status == 6);
  CHECK(out.text.find("not in one NVLink domain") != std::string::npos);
}

TEST_CASE("emulation: resident kernels need room for all of their blocks") {
  const Outcome out = run_beside("emulation_example", "--random-inputs 1", "WEFT_EMULATION_SMS=0");
  CHECK(out.status != 0);
  CHECK(out.text.find("too many blocks in cooperative launch") != std::string::npos);
}
