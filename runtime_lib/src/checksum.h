// CRC-32C (Castagnoli), by which the loader finds bytes of an executable that changed since it was written.
#pragma once
#include <cstddef>
#include <cstdint>

namespace weft {

/// The checksum of bytes that follow those of which `crc` is the checksum; 0 begins.
uint32_t crc32c(uint32_t crc, const void* bytes, size_t count);
/// True if the processor has an instruction for it: with it a GiB takes about as long as 64 MiB without.
bool has_crc32c_instruction();
/// The same as crc32c without the instruction that some processors have for it.
uint32_t crc32c_by_table(uint32_t crc, const void* bytes, size_t count);

}  // namespace weft
