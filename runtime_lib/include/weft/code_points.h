// The code points of UTF-8.
#pragma once
#include <cstdint>
#include <string_view>

namespace weft {

constexpr bool is_code_point(char32_t point) { return point <= 0x10ffff && (point < 0xd800 || point > 0xdfff); }

/// Writes the bytes of a code point, and gives their number.
constexpr int encode(char32_t point, char* to) {
  const int width = point < 0x80 ? 1 : point < 0x800 ? 2 : point < 0x10000 ? 3 : 4;
  const uint32_t mark = width == 1 ? 0 : 0xf00u >> width & 0xffu;  // of the first byte
  to[0] = char(mark | point >> 6 * (width - 1));
  for (int i = 1; i < width; ++i) to[i] = char(0x80u | (point >> 6 * (width - 1 - i) & 0x3fu));
  return width;
}

/// Walks over them: for (CodePoints each(bytes); each.more(); each.next()). A byte that begins none stands for U+FFFD.
class CodePoints {
 public:
  constexpr explicit CodePoints(std::string_view bytes) : rest_(bytes) { decode(); }
  constexpr bool more() const { return !rest_.empty(); }
  constexpr void next() {
    rest_.remove_prefix(width_);
    decode();
  }
  constexpr char32_t point() const { return point_; }
  constexpr bool is_valid() const { return is_valid_; }
  /// The bytes of this code point and of all that follow.
  constexpr std::string_view rest() const { return rest_; }

 private:
  constexpr void decode() {
    if (rest_.empty()) return;
    const uint8_t first = uint8_t(rest_[0]);
    const size_t width = first < 0x80 ? 1 : first < 0xc0 ? 0 : first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4;
    is_valid_ = width > 0 && first < 0xf8 && width <= rest_.size();
    char32_t point = width < 2 ? first : first & (0x7fu >> width);
    for (size_t i = 1; is_valid_ && i < width; ++i) {
      is_valid_ = (uint8_t(rest_[i]) & 0xc0u) == 0x80u;
      point = point << 6 | (uint8_t(rest_[i]) & 0x3fu);
    }
    char again[4] = {};
    is_valid_ = is_valid_ && is_code_point(point) && size_t(encode(point, again)) == width;
    point_ = is_valid_ ? point : U'\xfffd';
    width_ = is_valid_ ? width : 1;
  }

  std::string_view rest_;
  char32_t point_ = 0;
  size_t width_ = 0;
  bool is_valid_ = true;
};

}  // namespace weft
