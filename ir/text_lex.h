// Words of the text form, shared by printing and parsing.
#pragma once
#include <string>
#include <string_view>

namespace weft {

/// Whether a name of a value or place stands in the text form without quotes.
bool is_plain_name(std::string_view name);

}  // namespace weft
