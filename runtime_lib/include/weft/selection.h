// Where a mask is true, on the host.
#pragma once
#include <cstdint>

namespace weft {

/// Calls put(j, i) for the j-th index i below `length` at which load(i) is true, for at most `most` of them, and end(n)
/// where there are n. put() may be called for one j several times; the last call counts.
template <class Load, class Put, class End>
void true_positions(int64_t length, int64_t most, Load load, const Put& put, const End& end) {
  int64_t found = 0;
  // No branch asks for an element: which are true cannot be foretold.
  for (int64_t i = 0; i < length && found < most; ++i) {
    put(found, i);
    found += load(i) ? 1 : 0;
  }
  end(found);
}

}  // namespace weft
