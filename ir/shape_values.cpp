// A table of elements by value, and the bounds that are tighter than their terms'.
#include "ir/shape_values.h"

#include <algorithm>

namespace weftc {

const std::vector<Length>* ShapeValues::find(ValueId value) const {
  const auto at = elements_.find(value.index);
  return at == elements_.end() ? nullptr : &at->second;
}

void ShapeValues::set(ValueId value, std::vector<Length> elements) {
  elements_.insert_or_assign(value.index, std::move(elements));
}

bool ShapeValues::limit(const Length& length, int64_t most) {
  const auto [known, is_new] = limits_.emplace(length.text(), most);
  const bool is_tighter = is_new || most < known->second;
  known->second = std::min(known->second, most);
  return is_tighter;
}

ShapeValues ShapeValues::limits() const {
  ShapeValues only;
  only.limits_ = limits_;
  return only;
}

Extent ShapeValues::extent(const Length& length) const {
  if (length.is_constant()) return {length.constant(), {}};
  const auto limit = limits_.find(length.text());
  const int64_t bound = limit == limits_.end() ? length.high() : std::min(length.high(), limit->second);
  return run_time_extent(bound, length);
}

}  // namespace weftc
