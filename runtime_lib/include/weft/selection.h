// Where a mask is true, on the host.
#pragma once
#include <cstdint>

namespace weft {

/// Calls put(j, i) for the j-th index i below `length` at which load(i) is true, for at most `most` of them. Then it
/// calls end(n), where n is their number. It may call put() several times for one j: the last call counts.
template <class Load, class Put, class End>
void true_positions(int64_t length, int64_t most, Load load, const Put& put, const End& end) {
  int64_t found = 0;
  // No branch depends on an element, since such branches would be mispredicted.
  for (int64_t i = 0; i < length && found < most; ++i) {
    put(found, i);
    found += load(i) ? 1 : 0;
  }
  end(found);
}

}  // namespace weft
