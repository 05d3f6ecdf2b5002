// Finding, checking and mapping the weights. A program that `weft compile` linked has them in a section of its own; one
// built from emitted sources has weights.bin beside it. Both end in a footer, so that a file that was cut is noticed
// before its bytes are used.
#include "image_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "checksum.h"
#include "failure.h"

namespace weft {

/// The folder of the program's file, which a link in /proc may name.
static std::string folder_of(const std::string& program) {
  char path[4096];
  const ssize_t n = readlink(program.c_str(), path, sizeof path);
  const std::string all = n > 0 && program.starts_with("/proc/") ? std::string(path, size_t(n)) : program;
  return all.substr(0, all.rfind('/') + 1);
}

ImageFile::ImageFile(const std::string& weights, bool checks_all, const std::string& program)
    : checks_all_(checks_all), program_(program) {
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

/// A program that was built from emitted sources carries nothing; its weights lie beside it.
void ImageFile::open_program(const std::string& program) {
  fd_ = open(program.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd_ < 0) fail(kEnvironment, "%s cannot be read: %s", program.c_str(), strerror(errno));
  path_ = program.starts_with("/proc/") ? "the executable" : program;
  if (find_image() && read_footer()) return;
  const std::string folder = folder_of(program), carrier = path_;
  open_beside(folder + "weights.bin", folder + "manifest.json");
  if (fd_ < 0)
    missing_ = carrier + " carries no weights (a tool may have removed its section " + kImageSection + "), and ";
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
  fd_ = open(weights.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);  // does not wait for a pipe's writer
  if (fd_ >= 0 && !(find_image() && read_footer()))
    fail(kEnvironment, "%s is damaged: it does not end as weights do, so it was cut or is another file", path_.c_str());
  manifest_ = text;
}

/// Whether these bytes of the file end as an image does.
bool ImageFile::ends_in_footer(int64_t end) const {
  const std::string bytes = read_at(fd_, end - int64_t{sizeof(Footer)}, sizeof(Footer));
  return bytes.starts_with(std::string_view(kImageMagic, sizeof kImageMagic));
}

/// Where the image lies: in its section of a program, or it is the whole file. False for a program without one.
bool ImageFile::find_image() {
  image_ = {0, file_bytes(fd_)};
  const ElfFile elf(fd_);
  if (!elf.is_elf()) return true;
  bool is_damaged = !elf.is_whole();
  for (const ElfFile::Section& section : elf.sections()) {
    if (section.name == kImageSection && ends_in_footer(section.range.end())) return image_ = section.range, true;
    // An image in another section, or before one, is there although its own entry of the table says otherwise.
    is_damaged |=
        section.name == kImageSection || ends_in_footer(section.range.end()) || ends_in_footer(section.range.offset);
  }
  if (is_damaged || ends_in_footer(elf.section_table().offset))
    fail(kEnvironment, "%s is damaged: it does not end as it was written, so it was cut or changed", path_.c_str());
  return false;
}

/// False if the image does not end in a footer.
bool ImageFile::read_footer() {
  const int64_t size = image_.bytes;
  Footer footer = {};
  const std::string bytes =
      size >= int64_t{sizeof footer} ? read_at(fd_, image_.end() - int64_t{sizeof footer}, sizeof footer) : "";
  if (bytes.size() != sizeof footer || memcmp(bytes.data(), kImageMagic, sizeof kImageMagic) != 0) return false;
  memcpy(&footer, bytes.data(), sizeof footer);
  const auto lies_inside = [&](uint64_t offset, uint64_t length) {
    return offset <= uint64_t(size) && length <= uint64_t(size) - offset;
  };
  if (!lies_inside(footer.weights_offset, footer.weights_bytes) || footer.weights_offset % kPage != 0 ||
      !lies_inside(footer.manifest_offset, footer.manifest_bytes) || footer.checksums > uint64_t(size) ||
      !lies_inside(footer.checksums_offset, footer.checksums * sizeof(Checksum)))
    fail(kEnvironment, "%s is damaged: its weights do not lie inside it", path_.c_str());
  weights_offset_ = image_.offset + int64_t(footer.weights_offset);
  read_checksums(footer);
  return true;
}

// The manifest and the table of checksums, which have a checksum themselves.
void ImageFile::read_checksums(const Footer& footer) {
  manifest_ = read_at(fd_, image_.offset + int64_t(footer.manifest_offset), int64_t(footer.manifest_bytes));
  const std::string table =
      read_at(fd_, image_.offset + int64_t(footer.checksums_offset), int64_t(footer.checksums * sizeof(Checksum)));
  uint32_t crc = crc32c(crc32c(0, manifest_.data(), manifest_.size()), table.data(), table.size());
  crc = crc32c(crc, &footer, offsetof(Footer, crc));
  if (crc != footer.crc || footer.zero != 0)
    fail(kEnvironment, "%s is damaged: its manifest and table of weights have another checksum than when written",
         path_.c_str());
  contents_ = crc;
  checksums_.resize(footer.checksums);
  if (!table.empty()) memcpy(checksums_.data(), table.data(), table.size());
}

const Checksum& ImageFile::checksum_of(int64_t begin, int64_t bytes) const {
  for (const Checksum& checksum : checksums_)
    if (checksum.begin == uint64_t(begin) && checksum.bytes == uint64_t(bytes)) return checksum;
  fail(kWrongInput, "%s: no slice of weights has bytes %ld to %ld, which the program needs: they are another program's",
       path_.c_str(), long(begin), long(begin + bytes));
}

uint64_t ImageFile::build() const {
  const int program = open(program_.c_str(), O_RDONLY | O_CLOEXEC);
  const uint64_t code = program < 0 ? 0 : ElfFile(program).code_checksum();
  if (program >= 0) close(program);
  return code << 32 | crc32c(contents_, manifest_.data(), manifest_.size());
}

static std::string axes_text(const Group& group) {
  std::string out;
  for (int a = 0; a < group.naxes; ++a) out += (a > 0 ? "*" : "") + std::string(group.axes[a].name);
  return out.empty() ? "" : " over " + out;
}

/// Slices up to this size are compared with their checksums whenever they are mapped. That takes at most 0.12 s (on a
/// Zen 4 server), or 0.15 s if the processor has no instruction for it.
static int64_t checked_bytes() { return has_crc32c_instruction() ? int64_t{1} << 30 : int64_t{64} << 20; }

/// Slices begin at multiples of kPage, and a kernel with larger pages (some on Arm have 64 KiB) cannot map them there.
/// No kernel can if a tool has moved the image to another offset.
bool ImageFile::maps_slices() const { return sysconf(_SC_PAGESIZE) <= kPage && weights_offset_ % kPage == 0; }

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
  if (fd_ < 0) fail(kWrongInput, "%s%s: the weights are missing", missing_.c_str(), path_.c_str());
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
