// CRC-32C (Castagnoli), with which the loader detects changed bytes of an executable.
#pragma once
#include <cstddef>
#include <cstdint>

namespace weft {

/// Extends `crc`, the checksum of the preceding bytes (0 at the beginning), by these bytes.
uint32_t crc32c(uint32_t crc, const void* bytes, size_t count);
/// Whether the processor has an instruction for it, which makes it about 16 times as fast.
bool has_crc32c_instruction();
/// The same as crc32c without the instruction that some processors have for it.
uint32_t crc32c_by_table(uint32_t crc, const void* bytes, size_t count);

}  // namespace weft
