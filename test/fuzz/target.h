// The fuzz targets: each passes the bytes of one case to a part of Weft that must handle any input. A finding is a
// signal, a sanitizer's report, an exception that leaves a target, a hang, memory beyond a limit.
#pragma once
#include <cstdint>
#include <random>
#include <span>
#include <string>
#include <string_view>

namespace weftc::fuzz {

using Random = std::mt19937;

struct FuzzTarget {
  const char* name;  // of its folder in the corpus, too
  const char* what;
  void (*run)(std::string_view bytes);
  /// Another case of the same structure; null: the engine changes bytes. Bytes without the structure stay as they are.
  std::string (*mutate)(std::string_view bytes, Random& random);
};

/// Targets of the compiler and of what executables read, by the file that defines them.
std::span<const FuzzTarget> compiler_targets();
std::span<const FuzzTarget> runtime_targets();
/// Null if no target has that name.
const FuzzTarget* find_target(std::string_view name);

/// Runs one case. Where an exception leaves the target it prints which, and aborts.
void run_case(const FuzzTarget& target, std::string_view bytes);

/// A model with some of its nodes, edges, attributes, types, shapes and constants changed, and the schedule, dims and
/// target that it carries (model_case.h).
std::string mutate_model(std::string_view bytes, Random& random);

}  // namespace weftc::fuzz
