// The records of targets: what a kernel's launch and the commands of its compiler look like in each.
#include <doctest/doctest.h>

#include <algorithm>

#include "backend/dialects/target_dialect.h"
#include "ir/base/text.h"

using namespace weftc;

namespace {

std::string without_breaks(std::string line) {
  std::replace(line.begin(), line.end(), kBreak, ' ');
  return line;
}

std::string launch_text(const TargetDialect& dialect, bool waits) {
  return without_breaks(dialect.launch({"gelu", 4, 128, waits, {"r[x]", "r[y]"}}));
}

}  // namespace

TEST_CASE("dialects: a step calls a host's kernel and launches a grid's, resident where it waits") {
  CHECK(launch_text(host_dialect(), true) == "gelu(r[x], r[y]);");
  CHECK(launch_text(cuda_dialect(), false) == "r.launch(gelu, {.blocks = 4, .threads = 128}, r[x], r[y]);");
  CHECK(launch_text(cuda_dialect(), true) == "r.launch_resident(gelu, {.blocks = 4, .threads = 128}, r[x], r[y]);");
}

TEST_CASE("dialects: kernels are compiled for the target's archs, and only the host's program is") {
  const Compilers compilers{.host = "g++", .toolkit = "/opt/cuda", .quick = false};
  const Target host = host_target({"x86-64-v4"}), cuda = cuda_target({"sm_80", "sm_90"});
  const std::string flags =
      " -fno-math-errno -fno-trapping-math -fwrapv -fno-tree-slp-vectorize -fopenmp-simd -w -pipe"
      " -fno-tree-loop-distribute-patterns -fno-schedule-insns --param=large-stack-frame=1000000";
  const auto text = [&](Command (*compiler)(const Target&, const Compilers&), const Target& target) {
    return join(compiler(target, compilers), " ");
  };
  CHECK(text(host_dialect().kernel_compiler, host) == "g++ -std=c++20 -O3 -march=x86-64-v4" + flags + " -DWEFT_TILES");
  CHECK(text(host_dialect().program_compiler, host) == "g++ -std=c++20 -O1 -march=x86-64-v4" + flags);
  // clang knows fewer flags, and refuses the others.
  CHECK(join(host_dialect().program_compiler(host, {.host = "clang++", .toolkit = "", .quick = false}), " ") ==
        "clang++ -std=c++20 -O1 -march=x86-64-v4 -fno-math-errno -fno-trapping-math -fwrapv -fno-tree-slp-vectorize "
        "-fopenmp-simd -w -pipe");
  CHECK(text(cuda_dialect().program_compiler, cuda) == "g++ -std=c++20 -O1" + flags);
  CHECK(text(cuda_dialect().kernel_compiler, cuda) ==
        "/opt/cuda/bin/nvcc -std=c++20 -O3 -w --expt-relaxed-constexpr --objdir-as-tempdir -ccbin g++ "
        "-gencode=arch=compute_80,code=sm_80 -gencode=arch=compute_90,code=[sm_90,compute_90]");
}

TEST_CASE("dialects: what the emitted CMakeLists.txt builds for") {
  CHECK(cuda_dialect().archs(cuda_target({"sm_80", "sm_90"})) == "80;90");
  CHECK(host_dialect().archs(host_target({"x86-64-v3"})) == "x86-64-v3");
  CHECK(host_dialect().archs(host_target({"aarch64"})) == "armv8-a");
}

TEST_CASE("dialects: each target has the record that is named like it") {
  CHECK(&dialect_of(host_target({"x86-64-v3"})) == &host_dialect());
  CHECK(&dialect_of(cuda_target({"sm_90"})) == &cuda_dialect());
}
