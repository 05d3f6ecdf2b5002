// Runs the programs of programs.cpp as a user would, and reads and writes their files.
#pragma once
#include <doctest/doctest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "runtime_lib/src/npy.h"

namespace weft::test {

struct Finished {
  int code;
  std::string text;  // standard output and error
  double seconds;
};

/// A folder of its own for each test, with the weights of the MLP for 1, 2 and 4 ranks.
struct Folder {
  std::string path;
  Folder() {
    char name[] = "runtime_programs_XXXXXX";
    REQUIRE(mkdtemp(name) != nullptr);
    path = name;
  }
  ~Folder() {
    if (system(("rm -rf " + path).c_str()) != 0) perror(path.c_str());
  }
  std::string operator/(const std::string& name) const { return path + "/" + name; }
};

inline std::string programs() {
  char self[4096];
  const ssize_t n = readlink("/proc/self/exe", self, sizeof self);
  const std::string path(self, size_t(n));
  return path.substr(0, path.rfind('/') + 1) + "runtime_programs";
}

/// Runs a shell command line in which $P is the program.
inline Finished shell(const std::string& program, const std::string& command) {
  const std::string line = "( export WEFT_TEST_PROGRAM=" + program + " P=" + programs() + "; " + command + " ) 2>&1";
  const auto begin = std::chrono::steady_clock::now();
  FILE* pipe = popen(line.c_str(), "r");
  REQUIRE(pipe != nullptr);
  Finished out{0, "", 0};
  char block[4096];
  for (size_t n; (n = fread(block, 1, sizeof block, pipe)) > 0;) out.text.append(block, n);
  const int status = pclose(pipe);
  out.code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  out.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  return out;
}

inline Finished run(const std::string& program, const std::string& arguments) {
  return shell(program, "$P " + arguments);
}

inline bool contains(const Finished& finished, const char* part) {
  return finished.text.find(part) != std::string::npos;
}

inline std::vector<float> some_floats(int64_t n) {
  std::vector<float> out;
  for (int64_t i = 0; i < n; ++i) out.push_back(float(i));
  return out;
}

inline void write_floats(const std::string& file, const std::vector<int64_t>& shape, const std::vector<float>& values) {
  write_npy(file, DType::F32, shape, reinterpret_cast<const char*>(values.data()));
}

inline std::vector<float> read_floats(const std::string& file, const std::vector<int64_t>& shape) {
  const NpyFile npy(file, DType::F32);
  CHECK(shape_text(npy.shape()) == shape_text(shape));
  const float* data = reinterpret_cast<const float*>(npy.data());
  int64_t n = 1;
  for (const int64_t d : npy.shape()) n *= d;
  return {data, data + n};
}

}  // namespace weft::test
