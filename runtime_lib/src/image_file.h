// Weights and manifest: found in the executable or beside it, mapped slice by slice, and checked against their
// checksums (weft/image.h has the layout).
#pragma once
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "elf_file.h"
#include "mapping.h"
#include "weft/image.h"
#include "weft/program.h"

namespace weft {

/// The weights and the manifest of an executable, in the executable or beside it. It owns its mappings.
class ImageFile {
 public:
  /// `weights` names a file of weights; empty: those in `program`, else weights.bin beside it. `checks_all`: slices of
  /// any size are compared with their checksums, not only those that take an eighth of a second at most. Throws Failure
  /// (environment) if a file was cut or has other bytes than were written.
  explicit ImageFile(const std::string& weights, bool checks_all = false,
                     const std::string& program = "/proc/self/exe");
  ~ImageFile();
  ImageFile(const ImageFile&) = delete;
  ImageFile& operator=(const ImageFile&) = delete;

  std::string_view manifest() const { return manifest_; }
  /// A number that two executables share if they have the same code, plan and weights.
  uint64_t build() const;
  /// Maps a rank's slices of all segments of its program contiguously; nullptr without weights.
  const char* map_image(const Program& program, int rank);

 private:
  void open_program(const std::string& program);
  void open_beside(const std::string& weights, const std::string& manifest);
  bool find_image();
  bool ends_in_footer(int64_t end) const;
  bool read_footer();
  void read_checksums(const Footer& footer);
  const Checksum& checksum_of(int64_t begin, int64_t bytes) const;
  bool maps_slices() const;
  void map_slice(char* to, int64_t begin, int64_t bytes, const std::string& name) const;

  const bool checks_all_;
  const std::string program_;
  int fd_ = -1;
  FileRange image_;  // of the file
  int64_t weights_offset_ = 0;
  uint32_t contents_ = 0;                  // the checksum of manifest and checksums, and so of the weights
  std::string path_, manifest_, missing_;  // `missing_`: the beginning of the message for missing weights
  std::vector<Checksum> checksums_;
  std::mutex mutex_;  // ranks that are threads map their images at the same time
  std::vector<Mapping> images_;
};

}  // namespace weft
