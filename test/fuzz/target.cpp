// Finding a target by its name, and what leaves one.
#include "test/fuzz/target.h"

#include <cstdio>
#include <cstdlib>
#include <exception>

namespace weftc::fuzz {

const FuzzTarget* find_target(std::string_view name) {
  for (const std::span<const FuzzTarget> targets : {compiler_targets(), runtime_targets()})
    for (const FuzzTarget& target : targets)
      if (target.name == name) return &target;
  return nullptr;
}

void run_case(const FuzzTarget& target, std::string_view bytes) {
  try {
    target.run(bytes);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "finding: %s\n", error.what());
    std::abort();
  }
}

}  // namespace weftc::fuzz
