// CRC-32C by the processor's instruction if it has one, else by a table. The runtime has the same function
// (runtime_lib/src/checksum.cpp); it shares no code with the compiler.
#include "backend/checksum.h"

#include <array>
#include <cstring>

namespace weftc {

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

uint32_t crc32c_by_table(uint32_t crc, const void* bytes, size_t count) {
  const auto* at = static_cast<const uint8_t*>(bytes);
  crc = ~crc;
  for (; count > 0; ++at, --count) crc = crc >> 8 ^ kTable[(crc ^ *at) & 255];
  return ~crc;
}

#if defined(__x86_64__)
[[gnu::target("sse4.2")]] uint32_t crc32c_by_instruction(uint32_t crc, const char* bytes, size_t count) {
  uint64_t state = ~crc;
  for (; count >= 8; bytes += 8, count -= 8) {
    uint64_t word;
    std::memcpy(&word, bytes, 8);
    state = __builtin_ia32_crc32di(state, word);
  }
  uint32_t last = static_cast<uint32_t>(state);
  for (; count > 0; ++bytes, --count) last = __builtin_ia32_crc32qi(last, static_cast<uint8_t>(*bytes));
  return ~last;
}
#endif

}  // namespace

uint32_t crc32c(uint32_t crc, const void* bytes, size_t count) {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("sse4.2")) return crc32c_by_instruction(crc, static_cast<const char*>(bytes), count);
#endif
  return crc32c_by_table(crc, bytes, count);
}

}  // namespace weftc
