// Which of several programs for levels of CPUs runs.
#pragma once
#include <string>

#include "weft/level.h"

namespace weft {

/// The program that runs, of those there are.
struct LevelChoice {
  const LevelProgram& chosen;
  std::span<const LevelProgram> programs;
};

/// "x86-64-v3"; "x86-64" or "aarch64", or on other machines "any", for what every CPU has.
const char* level_name(Level level);

/// The highest level that this CPU has.
Level cpu_level();

/// The program of that level, "" for the best that this CPU has. Throws Failure (usage) where there is none of that
/// name.
const LevelProgram& choose_level(std::span<const LevelProgram> programs, const std::string& wanted);
/// Whether the program multiplies pairs of bfloat16 by AVX512-BF16, whose sums are rounded otherwise than those of
/// floats.
bool has_bfloat_products(const LevelProgram& program);
/// Throws Failure (environment) where this CPU lacks what the program needs.
void check_level(const LevelProgram& program);

}  // namespace weft
