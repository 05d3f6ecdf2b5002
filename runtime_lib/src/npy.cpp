// Mapping .npy files and writing them. A file's length must agree with its header, so that a truncated file is
// refused.
#include "npy.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>

#include "failure.h"
#include "npy_strings.h"
#include "output_file.h"

namespace weft {

static std::string_view map_file(const std::string& file) {
  const int fd = open(file.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);  // does not wait for a pipe's writer
  struct stat status = {};
  if (fd < 0 || fstat(fd, &status) != 0) {
    const int reason = errno;
    if (fd >= 0) close(fd);
    fail(kWrongInput, "%s: %s", file.c_str(), strerror(reason));
  }
  if (!S_ISREG(status.st_mode)) close(fd), fail(kWrongInput, "%s: not a file", file.c_str());
  if (status.st_size == 0) close(fd), fail(kWrongInput, "%s: not a .npy file", file.c_str());
  void* memory = mmap(nullptr, size_t(status.st_size), PROT_READ, MAP_PRIVATE, fd, 0);
  const int reason = errno;
  close(fd);
  if (memory == MAP_FAILED) fail(kWrongInput, "%s: %s", file.c_str(), strerror(reason));
  return {static_cast<const char*>(memory), size_t(status.st_size)};
}

static void check_length(const NpyHeader& header, int64_t element, size_t file_bytes, const std::string& file) {
  int64_t bytes = element;
  bool fits = true, is_empty = std::find(header.shape.begin(), header.shape.end(), 0) != header.shape.end();
  for (const int64_t d : header.shape) fits = fits && !__builtin_mul_overflow(bytes, d, &bytes);
  if (is_empty) bytes = 0, fits = true;
  const int64_t present = int64_t(file_bytes) - header.data_offset;
  if (fits && bytes == present) return;
  fail(kWrongInput, "%s: %ld bytes of elements; shape %s of '%s' needs %s%ld", file.c_str(), long(present),
       shape_text(header.shape).c_str(), header.descr.c_str(), fits ? "" : "more than ",
       long(fits ? bytes : INT64_MAX));
}

FileMapping::FileMapping(const std::string& file) : bytes_(map_file(file)) {}
FileMapping::~FileMapping() { munmap(const_cast<char*>(bytes_.data()), bytes_.size()); }

NpyArray::NpyArray(std::string_view bytes, DType dtype, const std::string& source)
    : bytes_(bytes), header_(parse_npy(bytes, source)) {
  check_length(header_, npy_element_bytes(header_, dtype, source), bytes_.size(), source);
  if (!is_stored_as(header_, dtype))
    converted_ = converted_elements(header_, bytes_.substr(size_t(header_.data_offset)), dtype, source);
}

int64_t tensor_bytes(DType dtype, const std::vector<int64_t>& shape) {
  int64_t bytes = element_bytes(dtype);
  for (const int64_t d : shape) bytes *= d;
  return bytes;
}

static std::string head_of(const char* type, const std::vector<int64_t>& shape) {
  std::string tuple;
  for (const int64_t d : shape) tuple += std::to_string(d) + (shape.size() == 1 ? "," : ", ");
  if (shape.size() > 1) tuple.resize(tuple.size() - 2);
  std::string header = text("{'descr': '%s', 'fortran_order': False, 'shape': (%s), }", type, tuple.c_str());
  header.resize((10 + header.size() + 1 + 63) / 64 * 64 - 10 - 1, ' ');
  header += '\n';
  const char head[10] = {'\x93', 'N', 'U', 'M', 'P', 'Y', 1, 0, char(header.size() & 255), char(header.size() >> 8)};
  return std::string(head, sizeof head) + header;
}

std::string npy_head(DType dtype, const std::vector<int64_t>& shape, Bfloat16Form form) {
  return head_of(npy_type(dtype, form), shape);
}

NpyParts::NpyParts(DType dtype, const std::vector<int64_t>& shape, const char* data, Bfloat16Form form)
    : elements_(data, size_t(tensor_bytes(dtype, shape))) {
  if (dtype != DType::String) {
    head_ = npy_head(dtype, shape, form);
    return;
  }
  NpyStrings strings =
      npy_strings(reinterpret_cast<const String*>(data), std::ssize(elements_) / int64_t{sizeof(String)});
  head_ = head_of(strings.type.c_str(), shape);
  converted_ = std::move(strings.bytes);
}

void write_npy(const std::string& file, DType dtype, const std::vector<int64_t>& shape, const char* data,
               Bfloat16Form form) {
  const NpyParts parts(dtype, shape, data, form);
  OutputFile out(file);
  out.write(parts.head());
  out.write(parts.elements());
  out.finish();
}

}  // namespace weft
