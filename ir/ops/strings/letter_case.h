// Letters with another case, and that case.
#pragma once
#include <cstdint>
#include <span>

namespace weftc {

/// Letters from `first` to `last` at a distance of `step` code points; each is mapped to the one `delta` away.
struct LetterRange {
  int32_t first, last, step, delta;
};

/// All letters that map to an upper case letter, or to a lower case one, in ascending order.
std::span<const LetterRange> letter_ranges(bool to_upper);

}  // namespace weftc
