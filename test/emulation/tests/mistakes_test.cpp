// Mistakes in kernels and in the order of streams are noticed.
#include <doctest/doctest.h>

#include "processes.h"

namespace {

/// One of the programs with a mistake.
Outcome run_program(const std::string& name, const std::string& variables = "") {
  return run_beside("emulation_programs", name, variables);
}

void check_says(const std::string& name, const std::string& text) {
  const Outcome out = run_program(name);
  CAPTURE(out.text);
  CHECK(out.status != 0);
  CHECK(out.text.find(text) != std::string::npos);
}

#if defined(__SANITIZE_ADDRESS__)
constexpr bool kAddressSanitizer = true;
#else
constexpr bool kAddressSanitizer = false;
#endif

}  // namespace

TEST_CASE("emulation: right programs pass under every seed") {
  for (const char* name : {"right_shift", "right_streams"})
    for (int seed = 0; seed < 4; ++seed) {
      const Outcome out = run_program(name, "WEFT_EMULATION_DELAY_US=200 WEFT_EMULATION_SEED=" + std::to_string(seed));
      CAPTURE(out.text);
      CHECK(out.status == 0);
    }
}

TEST_CASE("emulation: a dropped barrier shows, by NaN or as a race") {
  for (int seed = 0; seed < 4; ++seed)
    CHECK(run_program("dropped_barrier", "WEFT_EMULATION_SEED=" + std::to_string(seed)).status != 0);
}

TEST_CASE("emulation: a missing wait for an event shows, by NaN or as a race") {
  for (int seed = 0; seed < 4; ++seed)
    CHECK(
        run_program("missing_wait", "WEFT_EMULATION_DELAY_US=500 WEFT_EMULATION_SEED=" + std::to_string(seed)).status !=
        0);
}

TEST_CASE("emulation: an index beside shared or device memory") {
  check_says("shared_index", kAddressSanitizer ? "use-after-poison" : "a write beside the 512 bytes");
  check_says("device_index", kAddressSanitizer ? "heap-buffer-overflow" : "a write beside an allocation of 400 bytes");
}

TEST_CASE("emulation: more shared memory than a kernel may declare") {
  check_says("much_shared", "52000 bytes of shared memory, and a kernel has 49152");
}

TEST_CASE("emulation: divergent barriers name kernel, block and threads") {
  check_says("some_leave", "divergent barrier: thread 0 waits at");
  check_says("some_leave", "kernel mistakes::some_leave, block (");
  check_says("some_leave", "but thread 70 has ended");
  check_says("two_barriers", "meet at different places");
  check_says("not_in_mask", "is not in its own mask 000000ff");
  check_says("wrong_mask", "of the block meet at different places");
}

TEST_CASE("emulation: a thread that needs too much stack") { CHECK(run_program("deep_recursion").status != 0); }

TEST_CASE("emulation: a product that is new to cuBLASLt waits for the kernels of other ranks") {
  CHECK(run_program("known_product").status == 0);
  check_says("new_product", "while a kernel waits on the same device, which several ranks share");
}
