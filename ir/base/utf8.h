// UTF-8 and the code points that it encodes.
#pragma once
#include <optional>
#include <string>
#include <string_view>

namespace weftc {

/// Width in bytes of the code point at `at`; 0 if the bytes are not valid UTF-8.
size_t code_point_width(std::string_view text, size_t at);
/// The code points of a text; nothing if its bytes are not valid UTF-8.
std::optional<std::u32string> utf32_of(std::string_view text);
/// Nothing if a number is not a code point.
std::optional<std::string> utf8_of(std::u32string_view points);

}  // namespace weftc
