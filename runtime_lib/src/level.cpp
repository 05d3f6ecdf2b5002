// A CPU has a level if it has all of its instructions. The lists are from the x86-64 psABI, as far as they matter to
// kernels.
#include "level.h"

#include <algorithm>

#include "failure.h"
#include "weft/bfloat_pairs.h"
#include "weft/program.h"

namespace weft {

const char* level_name(Level level) {
#if defined(__x86_64__)
  constexpr const char* kAny = "x86-64";
#elif defined(__aarch64__)
  constexpr const char* kAny = "aarch64";
#else
  constexpr const char* kAny = "any";
#endif
  constexpr const char* kNames[] = {kAny, "x86-64-v2", "x86-64-v3", "x86-64-v4"};
  return kNames[int(level)];
}

Level cpu_level() {
#if defined(__x86_64__)
  const bool v2 = __builtin_cpu_supports("sse4.2") && __builtin_cpu_supports("popcnt");
  const bool v3 = v2 && __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
                  __builtin_cpu_supports("bmi") && __builtin_cpu_supports("bmi2");
  const bool v4 = v3 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                  __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("avx512dq") &&
                  __builtin_cpu_supports("avx512vl");
  return v4 ? Level::V4 : v3 ? Level::V3 : v2 ? Level::V2 : Level::Any;
#else
  return Level::Any;
#endif
}

const LevelProgram& best_of(std::span<const LevelProgram> programs) {
  size_t best = 0;
  for (size_t i = 1; i < programs.size(); ++i)
    if (programs[i].level <= cpu_level()) best = i;
  return programs[best];
}

const LevelProgram& choose_level(std::span<const LevelProgram> programs, const std::string& wanted) {
  const LevelProgram* chosen = wanted.empty() ? &best_of(programs) : nullptr;
  std::string names;
  for (const LevelProgram& program : programs) {
    if (wanted == level_name(program.level)) chosen = &program;
    names += (names.empty() ? "" : ", ") + std::string(level_name(program.level));
  }
  if (chosen == nullptr) fail(kUsage, "--arch %s: this program has %s", wanted.c_str(), names.c_str());
  return *chosen;
}

bool has_bfloat_products(const LevelProgram& program) {
  const Executable& executable = *program.executable;
  const bool has_pairs =
      executable.has_pairs || std::any_of(executable.variants.begin(), executable.variants.end(),
                                          [](const Variant& variant) { return variant.executable->has_pairs; });
  return has_pairs && has_bfloat_dot_product(program.level);
}

void check_level(const LevelProgram& program) {
  if (program.level <= cpu_level()) return;
  fail(kEnvironment, "the program is compiled for %s, and this CPU lacks instructions of that level",
       level_name(program.level));
}

}  // namespace weft
