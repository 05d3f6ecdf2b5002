// Properties that must be equal on all ranks that work together: the program with its weights, its level of kernels,
// and the flags that affect collective behaviour. Ranks compare them before their first step, over any transport.
#pragma once
#include <cstdint>
#include <string>

#include "level.h"
#include "options.h"
#include "world.h"

namespace weft {

/// One rank's side, as a few numbers.
struct Agreement {
  static constexpr int kMostFlags = 32;
  uint64_t build = 0;               // of code, plan and weights
  int32_t level = 0;                // of the kernels
  int32_t bfloat_products = 0;      // whether they multiply pairs of bf16
  uint64_t shape = 0;               // of the memory that the ranks share
  uint64_t flags[kMostFlags] = {};  // as agreement.cpp lists them
};

/// The agreement of this process. `build` is ImageFile::build.
Agreement agreement_of(uint64_t build, const LevelProgram& program, const WorldShape& shape, const Options& options);
/// The same for a program whose ranks have no command line.
Agreement agreement_of(uint64_t build, const WorldShape& shape);

/// Why two ranks cannot work together; `text` is empty if they can. They are named as in "rank 1 on beta".
struct Disagreement {
  int code = 0;
  std::string text;
};
Disagreement compare(const std::string& one, const Agreement& of_one, const std::string& other,
                     const Agreement& of_other);

}  // namespace weft
