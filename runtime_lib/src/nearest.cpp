// Edit distance (Levenshtein, with one row of the table at a time) over the names that exist.
#include "nearest.h"

#include <algorithm>
#include <numeric>

namespace weft {

static size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t i = 0; i < a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i + 1;
    for (size_t j = 0; j < b.size(); ++j) {
      const size_t replaced = diagonal + (a[i] != b[j] ? 1 : 0);
      diagonal = row[j + 1];
      row[j + 1] = std::min({replaced, row[j] + 1, row[j + 1] + 1});
    }
  }
  return row.back();
}

std::string did_you_mean(std::string_view word, const std::vector<std::string>& names) {
  const std::string* best = nullptr;
  // A word of which nothing is left has no neighbour.
  size_t best_distance = std::min(std::max<size_t>(2, word.size() / 3) + 1, word.size());
  for (const std::string& name : names) {
    const size_t distance = edit_distance(word, name);
    if (distance < best_distance) best = &name, best_distance = distance;
  }
  return best == nullptr ? "" : " (did you mean '" + *best + "'?)";
}

std::string list_text(const std::vector<std::string>& names) {
  constexpr size_t kShown = 20;
  std::string out;
  for (size_t i = 0; i < std::min(names.size(), kShown); ++i) out += (i == 0 ? "" : ", ") + names[i];
  return names.size() > kShown ? out + " and " + std::to_string(names.size() - kShown) + " more" : out;
}

}  // namespace weft
