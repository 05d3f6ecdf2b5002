// Weights and manifest: found behind the executable or beside it, mapped slice by slice, and checked against their
// checksums (weft/image.h has the layout).
#pragma once
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "mapping.h"
#include "weft/image.h"
#include "weft/program.h"

namespace weft {

/// The weights and the manifest of an executable, wherever they lie. What it maps lives as long as it.
class ImageFile {
 public:
  /// `weights` names a file of weights; empty: those behind `program`, else weights.bin beside it. `checks_all`: slices
  /// of any size are compared with their checksums, not only those that take an eighth of a second at most. Throws
  /// Failure (environment) where a file was cut or has other bytes than were written.
  explicit ImageFile(const std::string& weights, bool checks_all = false,
                     const std::string& program = "/proc/self/exe");
  ~ImageFile();
  ImageFile(const ImageFile&) = delete;
  ImageFile& operator=(const ImageFile&) = delete;

  std::string_view manifest() const { return manifest_; }
  /// Maps a rank's slices of all segments of its program, one behind the other; nullptr without weights.
  const char* map_image(const Program& program, int rank);

 private:
  void open_program(const std::string& program);
  void open_beside(const std::string& weights, const std::string& manifest);
  bool read_footer();
  void read_checksums(const Footer& footer);
  const Checksum& checksum_of(int64_t begin, int64_t bytes) const;
  void map_slice(char* to, int64_t begin, int64_t bytes, const std::string& name) const;

  const bool checks_all_;
  int fd_ = -1;
  int64_t weights_offset_ = 0;
  std::string path_, manifest_;
  std::vector<Checksum> checksums_;
  std::mutex mutex_;  // ranks that are threads map their images at the same time
  std::vector<Mapping> images_;
};

}  // namespace weft
