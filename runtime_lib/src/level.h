// The choice among programs for several levels of CPUs.
#pragma once
#include <string>

#include "weft/level.h"

namespace weft {

/// The chosen program, and all programs.
struct LevelChoice {
  const LevelProgram& chosen;
  std::span<const LevelProgram> programs;
};

/// "x86-64-v3"; for the baseline "x86-64" or "aarch64", or on other machines "any".
const char* level_name(Level level);

/// The highest level that this CPU has.
Level cpu_level();

/// The program of that level, "" for the best that this CPU has. Throws Failure (usage) if no program has that name.
const LevelProgram& choose_level(std::span<const LevelProgram> programs, const std::string& wanted);
/// Whether the program multiplies pairs of bfloat16 by AVX512-BF16, which rounds sums differently than floats do.
bool has_bfloat_products(const LevelProgram& program);
/// Throws Failure (environment) if this CPU lacks features that the program needs.
void check_level(const LevelProgram& program);

}  // namespace weft
