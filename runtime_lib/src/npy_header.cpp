// Parsing the header of a .npy file: magic, version, length, and a Python dictionary of which only the form
// that NumPy writes is accepted (numpy.lib.format, versions 1.0 to 3.0).
#include "npy_header.h"

#include "failure.h"

namespace weft {

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
        out.is_fortran = is_true(), has_order = true;
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
    if (at_ != text_.size()) wrong("text after the dictionary");
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
  bool is_true() {
    skip_space();
    const std::string_view rest = text_.substr(at_);
    const bool out = rest.starts_with("True");
    if (!out && !rest.starts_with("False")) wrong("fortran_order is neither True nor False");
    at_ += out ? 4 : 5;
    return out;
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

}  // namespace weft
