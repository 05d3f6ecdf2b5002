// CRC-32C by the processor's instruction, or else by a table. The compiler's packer has the same function
// (backend/checksum.cpp): it shares no code with the runtime.
#include "checksum.h"

#if defined(__aarch64__)
#include <asm/hwcap.h>
#include <sys/auxv.h>
#endif

#include <array>
#include <cstring>

namespace weft {

namespace {

constexpr std::array<uint32_t, 256> make_table() {
  std::array<uint32_t, 256> table = {};
  for (uint32_t i = 0; i < 256; ++i) {
    uint32_t value = i;
    for (int bit = 0; bit < 8; ++bit) value = value >> 1 ^ (value & 1 ? 0x82f63b78u : 0);
    table[i] = value;
  }
  return table;
}
constexpr std::array<uint32_t, 256> kTable = make_table();

// The instruction of each architecture that may have one.
#if defined(__x86_64__)
#define WEFT_WITH_CRC32C [[gnu::target("sse4.2")]]
bool has_instruction() { return __builtin_cpu_supports("sse4.2"); }
WEFT_WITH_CRC32C inline uint32_t add_word(uint32_t state, uint64_t word) {
  return uint32_t(__builtin_ia32_crc32di(state, word));
}
WEFT_WITH_CRC32C inline uint32_t add_byte(uint32_t state, uint8_t byte) { return __builtin_ia32_crc32qi(state, byte); }
#elif defined(__aarch64__)
#define WEFT_WITH_CRC32C [[gnu::target("+crc")]]
bool has_instruction() { return (getauxval(AT_HWCAP) & HWCAP_CRC32) != 0; }
WEFT_WITH_CRC32C inline uint32_t add_word(uint32_t state, uint64_t word) {
  return __builtin_aarch64_crc32cx(state, word);
}
WEFT_WITH_CRC32C inline uint32_t add_byte(uint32_t state, uint8_t byte) {
  return __builtin_aarch64_crc32cb(state, byte);
}
#else
bool has_instruction() { return false; }
#endif

#if defined(WEFT_WITH_CRC32C)
WEFT_WITH_CRC32C uint32_t crc32c_by_instruction(uint32_t crc, const char* bytes, size_t count) {
  crc = ~crc;
  for (; count >= 8; bytes += 8, count -= 8) {
    uint64_t word;
    memcpy(&word, bytes, 8);
    crc = add_word(crc, word);
  }
  for (; count > 0; ++bytes, --count) crc = add_byte(crc, uint8_t(*bytes));
  return ~crc;
}
#endif

}  // namespace

uint32_t crc32c_by_table(uint32_t crc, const void* bytes, size_t count) {
  const auto* at = static_cast<const uint8_t*>(bytes);
  crc = ~crc;
  for (; count > 0; ++at, --count) crc = crc >> 8 ^ kTable[(crc ^ *at) & 255];
  return ~crc;
}

bool has_crc32c_instruction() { return has_instruction(); }

uint32_t crc32c(uint32_t crc, const void* bytes, size_t count) {
#if defined(WEFT_WITH_CRC32C)
  if (has_instruction()) return crc32c_by_instruction(crc, static_cast<const char*>(bytes), count);
#endif
  return crc32c_by_table(crc, bytes, count);
}

}  // namespace weft
