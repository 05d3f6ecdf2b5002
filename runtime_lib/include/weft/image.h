// The layout of weights and manifest: the section .weft of an executable or library, or the file weights.bin. Written
// by the compiler's packer (which does not include this header: the table below is the contract), read by the loader.
//
//   bytes                         content
//   0 .. weights_bytes            the weights; every segment slice begins at a multiple of 4096
//   M .. M + manifest_bytes       manifest.json as UTF-8 text (any alignment, M >= weights_bytes)
//   C .. C + checksums * 24       one Checksum for each slice, in the order of the slices
//   the last 64 bytes             Footer
//
// All numbers are little endian and count from the beginning of the section or file. The section is of a kind that is
// not loaded into memory and that tools such as strip keep. It begins at a multiple of 4096 in its file. With emitted
// sources, weights.bin lies beside the executable, or --weights FILE names it. It has the same bytes without the
// manifest, which lies beside it as manifest.json.
//
// Inside the weights: Segment i of a program covers bytes [begin, end) of a rank's image, begin = 0 or the previous
// segment's end rounded up to 4096. Its slices have round_up(end - begin, 4096) bytes each. They are contiguous, in the
// order of the group's index, from byte Segment::file (or the end of the previous segment's last slice) on.
//
// Checksums are CRC-32C (Castagnoli). A file without a footer was cut short: the footer is written last.
#pragma once
#include <cstdint>

namespace weft {

inline constexpr char kImageMagic[8] = {'W', 'E', 'F', 'T', 'I', 'M', 'G', '3'};
inline constexpr const char* kImageSection = ".weft";

/// The checksum of bytes [begin, begin + bytes) of the weights, one slice of a segment.
struct Checksum {
  uint64_t begin, bytes;
  uint32_t crc;
  uint32_t zero = 0;
};
static_assert(sizeof(Checksum) == 24);

struct Footer {
  char magic[8];                           // "WEFTIMG3"
  uint64_t weights_offset, weights_bytes;  // the offset is a multiple of 4096
  uint64_t manifest_offset, manifest_bytes;
  uint64_t checksums_offset, checksums;  // how many
  uint32_t crc;                          // of the manifest, the checksums, and the footer up to here, in this order
  uint32_t zero;
};
static_assert(sizeof(Footer) == 64);

}  // namespace weft
