// Finding, checking and mapping the weights. A program that `weft compile` linked has them behind its own
// bytes; one built from emitted sources has weights.bin beside it. Both end in a footer, so that a file that
// was cut is noticed before its bytes are used.
#include "image_file.h"

#include <elf.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "checksum.h"
#include "failure.h"

namespace weft {

static int64_t file_bytes(int fd) {
  struct stat status = {};
  return fstat(fd, &status) == 0 ? int64_t{status.st_size} : 0;
}

/// Reads bytes [offset, offset + bytes) of a file; false if it has fewer.
static bool read_into(char* to, int fd, int64_t offset, int64_t bytes) {
  for (int64_t done = 0; done < bytes;) {
    const ssize_t n = pread(fd, to + done, size_t(bytes - done), offset + done);
    if (n <= 0) return false;
    done += n;
  }
  return true;
}

// The same as text; empty if the file has fewer.
static std::string read_at(int fd, int64_t offset, int64_t bytes) {
  std::string out(size_t(bytes), '\0');
  return read_into(out.data(), fd, offset, bytes) ? out : "";
}

/// The folder of the program's file, which a link in /proc may name.
static std::string folder_of(const std::string& program) {
  char path[4096];
  const ssize_t n = readlink(program.c_str(), path, sizeof path);
  const std::string all = n > 0 && program.starts_with("/proc/") ? std::string(path, size_t(n)) : program;
  return all.substr(0, all.rfind('/') + 1);
}

/// The end of the linked program within its file, which is the last byte that its ELF headers know of; 0 if the
/// file has no such headers.
static int64_t end_of_program(int fd) {
  const std::string bytes = read_at(fd, 0, sizeof(Elf64_Ehdr));
  Elf64_Ehdr header = {};
  if (bytes.size() != sizeof header || memcmp(bytes.data(), ELFMAG, SELFMAG) != 0) return 0;
  memcpy(&header, bytes.data(), sizeof header);
  if (header.e_shoff > uint64_t(file_bytes(fd))) return 0;
  const int64_t table_bytes = int64_t{header.e_shnum} * int64_t{sizeof(Elf64_Shdr)};
  int64_t end = int64_t(header.e_shoff) + table_bytes;
  const std::string table = read_at(fd, int64_t(header.e_shoff), table_bytes);
  for (size_t at = 0; at < table.size(); at += sizeof(Elf64_Shdr)) {
    Elf64_Shdr section;
    memcpy(&section, table.data() + at, sizeof section);
    if (section.sh_type != SHT_NOBITS) end = std::max(end, int64_t(section.sh_offset + section.sh_size));
  }
  return end;
}

ImageFile::ImageFile(const std::string& weights, bool checks_all, const std::string& program)
    : checks_all_(checks_all) {
  const std::string folder = folder_of(program);
  if (weights.empty()) {
    open_program(program);
    return;
  }
  open_beside(weights, folder + "manifest.json");
  if (fd_ < 0) fail(kWrongInput, "%s: %s", weights.c_str(), strerror(errno));
}

ImageFile::~ImageFile() {
  if (fd_ >= 0) close(fd_);
}

/// A program that was built from emitted sources has nothing behind it; its weights lie beside it. Bytes
/// without a footer, however, are weights that were cut.
void ImageFile::open_program(const std::string& program) {
  fd_ = open(program.c_str(), O_RDONLY | O_CLOEXEC);
  path_ = program.starts_with("/proc/") ? "the executable" : program;
  if (read_footer()) return;
  if (file_bytes(fd_) > end_of_program(fd_))
    fail(kEnvironment, "%s is damaged: it does not end as it was written, so it was cut or changed", path_.c_str());
  const std::string folder = folder_of(program);
  open_beside(folder + "weights.bin", folder + "manifest.json");
}

void ImageFile::open_beside(const std::string& weights, const std::string& manifest) {
  if (fd_ >= 0) close(fd_);
  path_ = weights;
  const int manifest_fd = open(manifest.c_str(), O_RDONLY | O_CLOEXEC);
  std::string text;
  if (manifest_fd >= 0) {
    text = read_at(manifest_fd, 0, file_bytes(manifest_fd));
    close(manifest_fd);
  }
  fd_ = open(weights.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd_ >= 0 && !read_footer())
    fail(kEnvironment, "%s is damaged: it does not end as weights do, so it was cut or is another file", path_.c_str());
  manifest_ = text;
}

/// False where the file does not end in a footer.
bool ImageFile::read_footer() {
  const int64_t size = file_bytes(fd_);
  Footer footer = {};
  const std::string bytes =
      size >= int64_t{sizeof footer} ? read_at(fd_, size - int64_t{sizeof footer}, sizeof footer) : "";
  if (bytes.size() != sizeof footer || memcmp(bytes.data(), kImageMagic, sizeof kImageMagic) != 0) return false;
  memcpy(&footer, bytes.data(), sizeof footer);
  const auto lies_inside = [&](uint64_t offset, uint64_t length) {
    return offset <= uint64_t(size) && length <= uint64_t(size) - offset;
  };
  if (!lies_inside(footer.weights_offset, footer.weights_bytes) || footer.weights_offset % kPage != 0 ||
      !lies_inside(footer.manifest_offset, footer.manifest_bytes) || footer.checksums > uint64_t(size) ||
      !lies_inside(footer.checksums_offset, footer.checksums * sizeof(Checksum)))
    fail(kEnvironment, "%s is damaged: its weights do not lie inside it", path_.c_str());
  weights_offset_ = int64_t(footer.weights_offset);
  read_checksums(footer);
  return true;
}

// The manifest and the table of checksums, which have a checksum themselves.
void ImageFile::read_checksums(const Footer& footer) {
  manifest_ = read_at(fd_, int64_t(footer.manifest_offset), int64_t(footer.manifest_bytes));
  const std::string table =
      read_at(fd_, int64_t(footer.checksums_offset), int64_t(footer.checksums * sizeof(Checksum)));
  uint32_t crc = crc32c(crc32c(0, manifest_.data(), manifest_.size()), table.data(), table.size());
  crc = crc32c(crc, &footer, offsetof(Footer, crc));
  if (crc != footer.crc || footer.zero != 0)
    fail(kEnvironment, "%s is damaged: its manifest and table of weights have another checksum than when written",
         path_.c_str());
  checksums_.resize(footer.checksums);
  if (!table.empty()) memcpy(checksums_.data(), table.data(), table.size());
}

const Checksum& ImageFile::checksum_of(int64_t begin, int64_t bytes) const {
  for (const Checksum& checksum : checksums_)
    if (checksum.begin == uint64_t(begin) && checksum.bytes == uint64_t(bytes)) return checksum;
  fail(kWrongInput, "%s: no slice of weights has bytes %ld to %ld, which the program needs: they are another program's",
       path_.c_str(), long(begin), long(begin + bytes));
}

static std::string axes_text(const Group& group) {
  std::string out;
  for (int a = 0; a < group.naxes; ++a) out += (a > 0 ? "*" : "") + std::string(group.axes[a].name);
  return out.empty() ? "" : " over " + out;
}

/// Slices up to this size are compared with their checksums whenever they are mapped. That takes 0.12 s at most
/// (on a Zen 4 server), or 0.15 s where the processor has no instruction for it.
static int64_t checked_bytes() { return has_crc32c_instruction() ? int64_t{1} << 30 : int64_t{64} << 20; }

/// Slices begin at multiples of kPage, and a kernel with larger pages (some of Arm have 64 KiB) cannot map them there.
static bool maps_slices() { return sysconf(_SC_PAGESIZE) <= kPage; }

// Maps a slice into the image that was reserved for the rank. Unless the slice is checked here, its pages are
// read from the file when they are first used.
void ImageFile::map_slice(char* to, int64_t begin, int64_t bytes, const std::string& name) const {
  if (bytes == 0) return;
  const Checksum& checksum = checksum_of(begin, bytes);
  const bool is_there = maps_slices() ? mmap(to, size_t(bytes), PROT_READ, MAP_PRIVATE | MAP_FIXED, fd_,
                                             weights_offset_ + begin) != MAP_FAILED
                                      : read_into(to, fd_, weights_offset_ + begin, bytes);
  if (!is_there) fail(kEnvironment, "cannot map %ld bytes of weights: %s", long(bytes), strerror(errno));
  if (!checks_all_ && bytes > checked_bytes()) return;
  if (crc32c(0, to, size_t(bytes)) == checksum.crc) return;
  fail(kEnvironment, "%s is damaged: %s (%ld bytes from byte %ld) has another checksum than when it was written",
       path_.c_str(), name.c_str(), long(bytes), long(weights_offset_ + begin));
}

const char* ImageFile::map_image(const Program& program, int rank) {
  const int64_t bytes = program.image_bytes();
  if (bytes == 0) return nullptr;
  if (fd_ < 0) fail(kWrongInput, "%s: the weights are missing", path_.c_str());
  const int access = maps_slices() ? PROT_NONE : PROT_READ | PROT_WRITE;
  void* reserved = mmap(nullptr, size_t(bytes), access, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (reserved == MAP_FAILED)
    fail(kEnvironment, "cannot reserve %ld bytes for weights: %s", long(bytes), strerror(errno));
  char* image = static_cast<char*>(reserved);
  {
    const std::lock_guard lock(mutex_);
    images_.emplace_back(reserved, bytes);
  }
  int64_t begin = 0, file = 0;
  for (const Segment& segment : program.weights) {
    const int64_t length = round_up(segment.end, kPage) - begin;
    const int slice = segment.sliced.index(rank);
    if (segment.file >= 0) file = segment.file;
    map_slice(image + begin, file + slice * length, length,
              text("slice %d of weight segment %td%s", slice, &segment - program.weights.data(),
                   axes_text(segment.sliced).c_str()));
    begin += length;
    file += segment.sliced.size() * length;
  }
  return image;
}

}  // namespace weft
