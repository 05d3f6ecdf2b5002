// The targets under libFuzzer, which brings main(): `weft_fuzz --target=NAME [libFuzzer's flags] FOLDER...`. It keeps
// what reaches new code, and changes bytes where a target has no way of its own to change a case.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "test/fuzz/target.h"

using namespace weftc::fuzz;

extern "C" size_t LLVMFuzzerMutate(uint8_t* data, size_t size, size_t max_size);

static const FuzzTarget* chosen = nullptr;

extern "C" int LLVMFuzzerInitialize(int* argc, char*** argv) {
  constexpr std::string_view kFlag = "--target=";
  for (int k = 1; k < *argc; ++k)
    if (std::string_view((*argv)[k]).starts_with(kFlag)) chosen = find_target((*argv)[k] + kFlag.size());
  if (chosen) return 0;
  std::fprintf(stderr, "weft_fuzz: --target=NAME is missing, or there is none of that name\n");
  std::exit(2);
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  run_case(*chosen, {reinterpret_cast<const char*>(data), size});
  return 0;
}

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t max_size, unsigned seed) {
  if (!chosen->mutate) return LLVMFuzzerMutate(data, size, max_size);
  Random random(seed);
  const std::string made = chosen->mutate({reinterpret_cast<const char*>(data), size}, random);
  if (made.size() > max_size) return size;
  std::copy(made.begin(), made.end(), data);
  return made.size();
}
