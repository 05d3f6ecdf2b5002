#include "image_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "failure.h"
#include "weft/image.h"

namespace weft {

static int64_t file_bytes(int fd) {
  struct stat status = {};
  return fstat(fd, &status) == 0 ? int64_t{status.st_size} : 0;
}

static std::string read_at(int fd, int64_t offset, int64_t bytes) {
  std::string out(size_t(bytes), '\0');
  for (int64_t done = 0; done < bytes;) {
    const ssize_t n = pread(fd, out.data() + done, size_t(bytes - done), offset + done);
    if (n <= 0) return {};
    done += n;
  }
  return out;
}

static std::string folder_of_this_program() {
  char path[4096];
  const ssize_t n = readlink("/proc/self/exe", path, sizeof path);
  const std::string all(path, n > 0 ? size_t(n) : 0);
  return all.substr(0, all.rfind('/') + 1);
}

ImageFile::ImageFile(const std::string& weights) {
  const std::string folder = folder_of_this_program();
  if (!weights.empty()) {
    open_beside(weights, folder + "manifest.json");
    if (fd_ < 0) fail(kWrongInput, "%s: %s", weights.c_str(), strerror(errno));
    return;
  }
  open_appended("/proc/self/exe");
  if (weights_offset_ == 0 && manifest_.empty()) open_beside(folder + "weights.bin", folder + "manifest.json");
}

ImageFile::~ImageFile() {
  if (fd_ >= 0) close(fd_);
}

void ImageFile::open_appended(const std::string& path) {
  fd_ = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  const int64_t size = file_bytes(fd_);
  Footer footer = {};
  const std::string bytes =
      size >= int64_t{sizeof footer} ? read_at(fd_, size - int64_t{sizeof footer}, sizeof footer) : "";
  if (bytes.size() != sizeof footer || memcmp(bytes.data(), kImageMagic, sizeof kImageMagic) != 0) return;
  memcpy(&footer, bytes.data(), sizeof footer);
  const auto lies_inside = [&](uint64_t offset, uint64_t length) {
    return offset <= uint64_t(size) && length <= uint64_t(size) - offset;
  };
  if (!lies_inside(footer.weights_offset, footer.weights_bytes) || footer.weights_offset % kPage != 0 ||
      !lies_inside(footer.manifest_offset, footer.manifest_bytes))
    fail(kEnvironment, "the executable is damaged: its weights do not lie inside it");
  path_ = "the executable";
  weights_offset_ = int64_t(footer.weights_offset);
  weights_bytes_ = int64_t(footer.weights_bytes);
  manifest_ = read_at(fd_, int64_t(footer.manifest_offset), int64_t(footer.manifest_bytes));
}

void ImageFile::open_beside(const std::string& weights, const std::string& manifest) {
  if (fd_ >= 0) close(fd_);
  path_ = weights;
  const int manifest_fd = open(manifest.c_str(), O_RDONLY | O_CLOEXEC);
  if (manifest_fd >= 0) {
    manifest_ = read_at(manifest_fd, 0, file_bytes(manifest_fd));
    close(manifest_fd);
  }
  fd_ = open(weights.c_str(), O_RDONLY | O_CLOEXEC);
  weights_bytes_ = fd_ >= 0 ? file_bytes(fd_) : 0;
}

const char* ImageFile::map_image(const Program& program, int rank) const {
  const int64_t bytes = program.image_bytes();
  if (bytes == 0) return nullptr;
  if (fd_ < 0) fail(kWrongInput, "%s: the weights are missing", path_.c_str());
  void* reserved = mmap(nullptr, size_t(bytes), PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (reserved == MAP_FAILED)
    fail(kEnvironment, "cannot reserve %ld bytes for weights: %s", long(bytes), strerror(errno));
  char* image = static_cast<char*>(reserved);
  int64_t begin = 0, file = 0;
  for (const Segment& segment : program.weights) {
    const int64_t length = round_up(segment.end, kPage) - begin;
    if (segment.file >= 0) file = segment.file;
    const int64_t at = file + segment.sliced.index(rank) * length;
    // The last slice of a weights file may end inside its page.
    if (at + (segment.end - begin) > weights_bytes_)
      fail(kWrongInput, "%s: %ld bytes of weights; the program needs %ld", path_.c_str(), long(weights_bytes_),
           long(at + segment.end - begin));
    if (length > 0 && mmap(image + begin, size_t(length), PROT_READ, MAP_PRIVATE | MAP_FIXED, fd_,
                           weights_offset_ + at) == MAP_FAILED)
      fail(kEnvironment, "cannot map %ld bytes of weights: %s", long(length), strerror(errno));
    begin += length;
    file += segment.sliced.size() * length;
  }
  return image;
}

}  // namespace weft
