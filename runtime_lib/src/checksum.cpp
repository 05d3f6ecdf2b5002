// CRC-32C by the processor's instruction, or by a table where there is none. The compiler's packer has the same
// function (backend/checksum.cpp): it shares no code with the runtime.
#include "checksum.h"

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

#if defined(__x86_64__)
[[gnu::target("sse4.2")]] uint32_t crc32c_by_instruction(uint32_t crc, const char* bytes, size_t count) {
  uint64_t state = ~crc;
  for (; count >= 8; bytes += 8, count -= 8) {
    uint64_t word;
    memcpy(&word, bytes, 8);
    state = __builtin_ia32_crc32di(state, word);
  }
  uint32_t last = uint32_t(state);
  for (; count > 0; ++bytes, --count) last = __builtin_ia32_crc32qi(last, uint8_t(*bytes));
  return ~last;
}
#endif

}  // namespace

uint32_t crc32c_by_table(uint32_t crc, const void* bytes, size_t count) {
  const auto* at = static_cast<const uint8_t*>(bytes);
  crc = ~crc;
  for (; count > 0; ++at, --count) crc = crc >> 8 ^ kTable[(crc ^ *at) & 255];
  return ~crc;
}

bool has_crc32c_instruction() {
#if defined(__x86_64__)
  return __builtin_cpu_supports("sse4.2");
#else
  return false;
#endif
}

uint32_t crc32c(uint32_t crc, const void* bytes, size_t count) {
#if defined(__x86_64__)
  if (has_crc32c_instruction()) return crc32c_by_instruction(crc, static_cast<const char*>(bytes), count);
#endif
  return crc32c_by_table(crc, bytes, count);
}

}  // namespace weft
