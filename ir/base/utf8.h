// UTF-8 and the code points that it stands for.
#pragma once
#include <optional>
#include <string>
#include <string_view>

namespace weftc {

/// How many bytes at `at` are one code point; 0 where they are none.
size_t code_point_width(std::string_view text, size_t at);
/// The code points of a text; nothing where its bytes are no UTF-8.
std::optional<std::u32string> utf32_of(std::string_view text);
/// Nothing where a number is no code point.
std::optional<std::string> utf8_of(std::u32string_view points);

}  // namespace weftc
