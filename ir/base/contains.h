// Membership in a list; the standard library has it for sets and maps only.
#pragma once
#include <algorithm>
#include <iterator>

namespace weftc {

/// True if some item of `list` equals `item`.
template <class List, class Item>
bool contains(const List& list, const Item& item) {
  return std::find(std::begin(list), std::end(list), item) != std::end(list);
}

}  // namespace weftc
