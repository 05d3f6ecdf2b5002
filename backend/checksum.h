// CRC-32C (Castagnoli). The packer writes it next to weights, and the loader compares it
// (runtime_lib/include/weft/image.h).
#pragma once
#include <cstddef>
#include <cstdint>

namespace weftc {

/// Extends checksum `crc` by further bytes; the initial value is 0.
uint32_t crc32c(uint32_t crc, const void* bytes, size_t count);

}  // namespace weftc
