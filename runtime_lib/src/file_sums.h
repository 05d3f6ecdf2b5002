// Whether all ranks read the same files. Each reads them by itself, and where hosts hold different ones under the same
// name the ranks would compute with different numbers, of which no result tells.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "world.h"

namespace weft {

/// What one rank has read, as checksums in its slot of the world. All ranks read the same inputs in the same order.
class FileSums {
 public:
  FileSums(const World& world, int rank, bool checks_all) : world_(world), rank_(rank), checks_all_(checks_all) {}

  /// The elements of a file. Large ones count only with --check, since a sum of them takes time.
  void add(const std::string& input, const std::vector<int64_t>& shape, std::string_view elements);
  /// Behind a barrier of all ranks: on rank 0, throws Failure (wrong input) that names an input of which another rank
  /// has read something else.
  void check() const;

 private:
  const World& world_;
  const int rank_;
  const bool checks_all_;
  std::vector<std::string> inputs_;  // in the order in which they were first read
};

}  // namespace weft
