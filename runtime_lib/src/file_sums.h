// Checks that all ranks read the same files. Each rank reads its own copy. If hosts have different files under the same
// name, ranks would compute with different numbers, unnoticed.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "world.h"

namespace weft {

/// Checksums of the files that one rank has read, in its slot of the world. All ranks read the same inputs in the same
/// order.
class FileSums {
 public:
  FileSums(const World& world, int rank, bool checks_all) : world_(world), rank_(rank), checks_all_(checks_all) {}

  /// The elements of a file. Large ones count only with --check, since a sum of them takes time.
  void add(const std::string& input, const std::vector<int64_t>& shape, std::string_view elements);
  /// Whether a file was added since the last check; the same on all ranks.
  bool has_new() const { return has_new_; }
  /// Called after a barrier of all ranks, with another one before the next file is added. On rank 0 it throws Failure
  /// (wrong input), which names an input of which another rank has read other elements.
  void check();

 private:
  const World& world_;
  const int rank_;
  const bool checks_all_;
  std::vector<std::string> inputs_;  // in the order in which they were first read
  bool has_new_ = false;
};

}  // namespace weft
