// Decoding is strict: overlong forms, surrogates and numbers above U+10FFFF are invalid.
#include "ir/base/utf8.h"

#include <cstdint>
#include <utility>

namespace weftc {

static bool is_code_point(char32_t point) { return point <= 0x10ffff && (point < 0xd800 || point > 0xdfff); }

/// The number of bytes of a code point.
static size_t width_of(char32_t point) { return point < 0x80 ? 1 : point < 0x800 ? 2 : point < 0x10000 ? 3 : 4; }

/// Decodes the code point at `at` and returns it with its width in bytes. The width is 0 if the bytes are invalid.
static std::pair<char32_t, size_t> decoded(std::string_view text, size_t at) {
  const auto first = static_cast<uint8_t>(text[at]);
  const size_t width = first < 0x80 ? 1 : first < 0xc0 ? 0 : first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4;
  if (width == 0 || first >= 0xf8 || at + width > text.size()) return {};
  char32_t point = width == 1 ? first : first & (0x7f >> width);
  for (size_t i = 1; i < width; ++i) {
    const auto next = static_cast<uint8_t>(text[at + i]);
    if ((next & 0xc0) != 0x80) return {};
    point = point << 6 | (next & 0x3f);
  }
  if (!is_code_point(point) || width_of(point) != width) return {};
  return {point, width};
}

size_t code_point_width(std::string_view text, size_t at) { return decoded(text, at).second; }

std::optional<std::u32string> utf32_of(std::string_view text) {
  std::u32string points;
  for (size_t at = 0; at < text.size();) {
    const auto [point, width] = decoded(text, at);
    if (width == 0) return {};
    points += point;
    at += width;
  }
  return points;
}

std::optional<std::string> utf8_of(std::u32string_view points) {
  std::string text;
  for (const char32_t point : points) {
    if (!is_code_point(point)) return {};
    const size_t width = width_of(point);
    const char32_t lead = width == 1 ? 0 : 0xf00 >> width & 0xff;
    text += static_cast<char>(lead | point >> 6 * (width - 1));
    for (size_t i = width - 1; i-- > 0;) text += static_cast<char>(0x80 | (point >> 6 * i & 0x3f));
  }
  return text;
}

}  // namespace weftc
