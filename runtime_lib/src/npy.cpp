#include "npy.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>

namespace weft {

static const char* descr_of(DType dtype) {
  constexpr const char* kDescr[] = {"<f4", "<f8", "<f2", "<u2", "|i1", "<i2", "<i4",
                                    "<i8", "|u1", "<u2", "<u4", "<u8", "|b1"};
  return kDescr[int(dtype)];
}

std::string shape_text(const std::vector<int64_t>& shape) {
  std::string out;
  for (const int64_t d : shape) out += (out.empty() ? "" : "x") + std::to_string(d);
  return out.empty() ? "scalar" : out;
}

namespace {

/// The Python dictionary of a header: three keys, any order, no other form.
class HeaderParser {
 public:
  HeaderParser(std::string_view header, const std::string& file) : text_(header), file_(file) {}

  NpyHeader parse() {
    NpyHeader out;
    bool has_descr = false, has_order = false, has_shape = false;
    expect('{');
    while (!accept('}')) {
      const std::string key = quoted();
      expect(':');
      if (key == "descr" && !has_descr)
        out.descr = quoted(), has_descr = true;
      else if (key == "fortran_order" && !has_order)
        order(), has_order = true;
      else if (key == "shape" && !has_shape)
        out.shape = tuple(), has_shape = true;
      else
        wrong("unexpected key '" + key + "'");
      if (!accept(',')) {
        expect('}');
        break;
      }
    }
    skip_space();
    if (at_ != text_.size()) wrong("text behind the dictionary");
    if (!has_descr || !has_order || !has_shape) wrong("descr, fortran_order and shape are required");
    return out;
  }

 private:
  [[noreturn]] void wrong(const std::string& what) {
    fail(kWrongInput, "%s: not a .npy header: %s", file_.c_str(), what.c_str());
  }
  void skip_space() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\n' || text_[at_] == '\t')) ++at_;
  }
  bool accept(char c) {
    skip_space();
    if (at_ >= text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }
  void expect(char c) {
    if (!accept(c)) wrong(text("expected '%c' at byte %zu", c, at_));
  }
  std::string quoted() {
    skip_space();
    const char quote = at_ < text_.size() ? text_[at_] : ' ';
    const size_t end = quote == '\'' || quote == '"' ? text_.find(quote, at_ + 1) : std::string_view::npos;
    if (end == std::string_view::npos) wrong(text("expected a string at byte %zu", at_));
    const std::string out(text_.substr(at_ + 1, end - at_ - 1));
    at_ = end + 1;
    return out;
  }
  void order() {
    skip_space();
    const std::string_view rest = text_.substr(at_);
    if (rest.starts_with("True")) fail(kWrongInput, "%s: Fortran order; save it in C order", file_.c_str());
    if (!rest.starts_with("False")) wrong("fortran_order is neither True nor False");
    at_ += 5;
  }
  std::vector<int64_t> tuple() {
    std::vector<int64_t> out;
    expect('(');
    while (!accept(')')) {
      out.push_back(extent());
      if (!accept(',')) {
        expect(')');
        break;
      }
    }
    if (out.size() > 32) wrong("more than 32 dimensions");
    return out;
  }
  int64_t extent() {
    skip_space();
    int64_t value = 0;
    const size_t begin = at_;
    for (; at_ < text_.size() && text_[at_] >= '0' && text_[at_] <= '9'; ++at_)
      if (__builtin_mul_overflow(value, 10, &value) || __builtin_add_overflow(value, text_[at_] - '0', &value))
        wrong("a dimension is too large");
    if (at_ == begin) wrong(text("expected a number at byte %zu", at_));
    return value;
  }

  std::string_view text_;
  const std::string& file_;
  size_t at_ = 0;
};

uint32_t little_endian(std::string_view bytes) {
  uint32_t value = 0;
  for (size_t i = bytes.size(); i-- > 0;) value = value << 8 | uint8_t(bytes[i]);
  return value;
}

}  // namespace

NpyHeader parse_npy(std::string_view bytes, const std::string& file) {
  constexpr std::string_view kMagic = "\x93NUMPY";
  if (bytes.size() < 10 || !bytes.starts_with(kMagic)) fail(kWrongInput, "%s: not a .npy file", file.c_str());
  const int major = uint8_t(bytes[6]);
  if (major < 1 || major > 3) fail(kWrongInput, "%s: .npy version %d; 1 to 3 are known", file.c_str(), major);
  const size_t length_bytes = major == 1 ? 2 : 4, begin = 8 + length_bytes;
  if (bytes.size() < begin) fail(kWrongInput, "%s: the file ends inside its header", file.c_str());
  const size_t length = little_endian(bytes.substr(8, length_bytes));
  if (bytes.size() - begin < length) fail(kWrongInput, "%s: the file ends inside its header", file.c_str());
  NpyHeader header = HeaderParser(bytes.substr(begin, length), file).parse();
  header.data_offset = int64_t(begin + length);
  return header;
}

static std::string_view map_file(const std::string& file) {
  const int fd = open(file.c_str(), O_RDONLY | O_CLOEXEC);
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

static void check_descr(const NpyHeader& header, DType dtype, const std::string& file) {
  const std::string wanted = descr_of(dtype);
  if (header.descr == wanted) return;
  if (header.descr.starts_with('>'))
    fail(kWrongInput, "%s: big endian elements '%s'; '%s' is expected", file.c_str(), header.descr.c_str(),
         wanted.c_str());
  const bool one_byte = wanted[0] == '|' && header.descr.size() == 3 && header.descr.substr(1) == wanted.substr(1);
  if (one_byte && (header.descr[0] == '<' || header.descr[0] == '=')) return;
  fail(kWrongInput, "%s: elements are '%s'; '%s' (%s) is expected", file.c_str(), header.descr.c_str(), wanted.c_str(),
       dtype_name(dtype));
}

static void check_length(const NpyHeader& header, DType dtype, size_t file_bytes, const std::string& file) {
  int64_t bytes = element_bytes(dtype);
  bool fits = true, is_empty = std::find(header.shape.begin(), header.shape.end(), 0) != header.shape.end();
  for (const int64_t d : header.shape) fits = fits && !__builtin_mul_overflow(bytes, d, &bytes);
  if (is_empty) bytes = 0, fits = true;
  const int64_t present = int64_t(file_bytes) - header.data_offset;
  if (fits && bytes == present) return;
  fail(kWrongInput, "%s: %ld bytes of elements; shape %s of %s needs %s%ld", file.c_str(), long(present),
       shape_text(header.shape).c_str(), dtype_name(dtype), fits ? "" : "more than ", long(fits ? bytes : INT64_MAX));
}

NpyFile::NpyFile(const std::string& file, DType dtype) : bytes_(map_file(file)) {
  try {
    header_ = parse_npy(bytes_, file);
    check_descr(header_, dtype, file);
    check_length(header_, dtype, bytes_.size(), file);
  } catch (const Failure&) {
    munmap(const_cast<char*>(bytes_.data()), bytes_.size());
    throw;
  }
}

NpyFile::~NpyFile() { munmap(const_cast<char*>(bytes_.data()), bytes_.size()); }

void write_npy(const std::string& file, DType dtype, const std::vector<int64_t>& shape, const char* data) {
  std::string tuple;
  int64_t bytes = element_bytes(dtype);
  for (const int64_t d : shape) tuple += std::to_string(d) + (shape.size() == 1 ? "," : ", "), bytes *= d;
  if (shape.size() > 1) tuple.resize(tuple.size() - 2);
  std::string header = text("{'descr': '%s', 'fortran_order': False, 'shape': (%s), }", descr_of(dtype), tuple.c_str());
  header.resize((10 + header.size() + 1 + 63) / 64 * 64 - 10 - 1, ' ');
  header += '\n';
  const char head[10] = {'\x93', 'N', 'U', 'M', 'P', 'Y', 1, 0, char(header.size() & 255), char(header.size() >> 8)};
  FILE* out = fopen(file.c_str(), "wb");
  bool ok = out != nullptr && fwrite(head, 1, sizeof head, out) == sizeof head &&
            fwrite(header.data(), 1, header.size(), out) == header.size() &&
            fwrite(data, 1, size_t(bytes), out) == size_t(bytes);
  const int reason = errno;
  if (out != nullptr) ok = fclose(out) == 0 && ok;
  if (!ok) fail(kWrongInput, "cannot write %s: %s", file.c_str(), strerror(reason));
}

}  // namespace weft
