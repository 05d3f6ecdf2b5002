// How much there was to choose from, for who looks at a search afterwards.
#pragma once
#include <cstdint>
#include <map>

namespace weftc {

struct SearchSize {
  int64_t ops = 0, classes = 0;            // the same op of all layers is one class
  std::map<int, int64_t> ways, ways_left;  // how many ops have so many ways; of these, reduction leaves so many
  double seconds = 0;                      // of the whole search, entries too
};

}  // namespace weftc
