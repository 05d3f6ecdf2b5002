// Levels of CPUs, as the ABI of x86-64 names them: the level for which a program is compiled, and the level of the CPU.
#pragma once
#include <cstdint>
#include <span>

namespace weft {

struct Executable;

/// Any: only features that every CPU of its architecture has.
enum class Level : uint8_t { Any, V2, V3, V4 };

/// The level of the including file, by its compiler flags.
#if defined(__AVX512F__) && defined(__AVX512BW__) && defined(__AVX512CD__) && defined(__AVX512DQ__) && \
    defined(__AVX512VL__)
constexpr Level kLevel = Level::V4;
#elif defined(__AVX2__) && defined(__FMA__) && defined(__BMI2__)
constexpr Level kLevel = Level::V3;
#elif defined(__SSE4_2__) && defined(__POPCNT__)
constexpr Level kLevel = Level::V2;
#else
constexpr Level kLevel = Level::Any;
#endif

/// A program whose kernels are compiled for a level.
struct LevelProgram {
  Level level;
  const Executable* executable;
};

/// The program of the highest level that this CPU has, or the first one. `programs`: the same program for one or more
/// levels, from low to high.
const LevelProgram& best_of(std::span<const LevelProgram> programs);

}  // namespace weft
