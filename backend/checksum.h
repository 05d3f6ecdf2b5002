// CRC-32C (Castagnoli), which the packer writes beside weights and the loader compares
// (runtime_lib/include/weft/image.h).
#pragma once
#include <cstddef>
#include <cstdint>

namespace weftc {

/// The checksum of bytes that follow those of which `crc` is the checksum; 0 begins.
uint32_t crc32c(uint32_t crc, const void* bytes, size_t count);

}  // namespace weftc
