// UTF-8 and code points. Inputs are checked, so that only valid UTF-8 is decoded here.
#include "npy_strings.h"

#include <algorithm>
#include <charconv>
#include <cstring>

#include "failure.h"
#include "weft/code_points.h"
#include "weft/strings.h"

namespace weft {

int64_t npy_string_bytes(const NpyHeader& header, const std::string& file) {
  constexpr std::string_view kType = "<U";
  const std::string_view descr = header.descr;
  int64_t points = 0;
  if (descr.starts_with(kType)) {
    const char *begin = descr.data() + kType.size(), *end = descr.data() + descr.size();
    const auto [read, error] = std::from_chars(begin, end, points);
    if (error != std::errc() || read != end || points > INT32_MAX) points = 0;
  }
  if (points <= 0)
    fail(kWrongInput, "%s: elements are '%s'; strings such as '<U12' are expected", file.c_str(), header.descr.c_str());
  return points * int64_t{sizeof(char32_t)};
}

String string_of_points(std::string_view element, const std::string& what) {
  std::u32string points(element.size() / sizeof(char32_t), U'\0');
  memcpy(points.data(), element.data(), element.size());
  points.resize(points.find_last_not_of(U'\0') + 1);
  String out = {};
  int64_t bytes = 0;
  for (const char32_t point : points) {
    if (!is_code_point(point))
      fail(kWrongInput, "%s holds %lu, which is no code point", what.c_str(), static_cast<unsigned long>(point));
    char encoded[4];
    const int width = encode(point, encoded);
    if (bytes + width <= String::kMost) memcpy(out.bytes + bytes, encoded, size_t(width));
    bytes += width;
  }
  if (bytes > String::kMost)
    fail(kWrongInput, "%s has %ld bytes as UTF-8; a string has at most %d", what.c_str(), long(bytes), String::kMost);
  out.length = uint8_t(bytes);
  return out;
}

NpyStrings npy_strings(const String* strings, int64_t count) {
  size_t width = 1;  // NumPy has no empty elements
  for (int64_t i = 0; i < count; ++i) {
    size_t points = 0;
    for (CodePoints each(view_of(strings[i])); each.more(); each.next()) ++points;
    width = std::max(width, points);
  }
  std::u32string all(size_t(count) * width, U'\0');
  for (int64_t i = 0; i < count; ++i) {
    char32_t* at = all.data() + size_t(i) * width;
    for (CodePoints each(view_of(strings[i])); each.more(); each.next()) *at++ = each.point();
  }
  return {"<U" + std::to_string(width), {reinterpret_cast<const char*>(all.data()), all.size() * sizeof(char32_t)}};
}

void check_strings(std::string_view elements, const std::string& what) {
  for (size_t i = 0; i < elements.size() / sizeof(String); ++i) {
    String string;
    memcpy(&string, elements.data() + i * sizeof string, sizeof string);
    for (CodePoints each(view_of(string)); each.more(); each.next())
      if (!each.is_valid()) fail(kWrongInput, "%s: string %zu is no UTF-8", what.c_str(), i);
  }
}

}  // namespace weft
