// Weights and manifest: found behind the executable or beside it, mapped slice by slice (weft/image.h has the layout).
#pragma once
#include <string>
#include <string_view>

#include "weft/program.h"

namespace weft {

/// The weights and the manifest of an executable, wherever they lie.
class ImageFile {
 public:
  /// `weights` names a file of weights; empty: the executable itself, else weights.bin beside it.
  explicit ImageFile(const std::string& weights);
  ~ImageFile();
  ImageFile(const ImageFile&) = delete;
  ImageFile& operator=(const ImageFile&) = delete;

  std::string_view manifest() const { return manifest_; }
  /// Maps a rank's slices of all segments of its program, one behind the other; nullptr without weights.
  const char* map_image(const Program& program, int rank) const;

 private:
  void open_appended(const std::string& path);
  void open_beside(const std::string& weights, const std::string& manifest);

  int fd_ = -1;
  int64_t weights_offset_ = 0, weights_bytes_ = 0;
  std::string path_, manifest_;
};

}  // namespace weft
