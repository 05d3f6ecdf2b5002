// How much tests try of what they draw or sweep: all of it in `full`, and of random cases a share under sanitizers.
#pragma once
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

inline bool is_full() {
  const char* label = std::getenv("WEFT_TEST_LABEL");  // test/run.py sets it
  return label && std::string_view(label) == "full";
}

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr bool kHasSanitizers = true;
#else
inline constexpr bool kHasSanitizers = false;
#endif

/// How many of `count` random cases a test tries. With sanitizers a case takes ten times as long; what it
/// computes is compared without them too, in all cases.
inline int random_cases(int count) { return kHasSanitizers && !is_full() ? (count + 7) / 8 : count; }

/// Which of `turns` a case of that name takes, the same each time (FNV-1a).
inline uint32_t turn_of(const std::string& name, uint32_t turns) {
  uint32_t hash = 2166136261;
  for (const char c : name) hash = (hash ^ static_cast<unsigned char>(c)) * 16777619;
  return hash % turns;
}
