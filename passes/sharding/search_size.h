// The size of the search space, for statistics after a search.
#pragma once
#include <cstdint>
#include <map>

namespace weftc {

struct SearchSize {
  int64_t ops = 0, classes = 0;            // the same op of all layers is one class
  std::map<int, int64_t> ways, ways_left;  // the number of ops by their number of ways; the same after reduction
  double seconds = 0;                      // of the whole search, entries too
};

}  // namespace weftc
