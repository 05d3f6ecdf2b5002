// "did you mean", for misspelt names.
#pragma once
#include <string>
#include <string_view>
#include <vector>

namespace weft {

/// " (did you mean 'NAME'?)" with the nearest of the names by edit distance; "" if none is near enough to be meant.
std::string did_you_mean(std::string_view word, const std::vector<std::string>& names);

/// "a, b, c", or the first of them and how many more there are.
std::string list_text(const std::vector<std::string>& names);

}  // namespace weft
