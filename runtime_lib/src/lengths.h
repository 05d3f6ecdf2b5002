// The lengths that each request sets: their values in its tensors, and their storage on a rank.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "rank_base.h"

namespace weft {

/// The values of named lengths that tensors claim. Tensors that share a name must agree.
class LengthClaims {
 public:
  explicit LengthClaims(const Executable& executable) : claims_(executable.lengths.size()) {}
  /// Throws Failure (wrong input), which names both tensors, if another one has claimed a different value. `source`
  /// names the tensor in messages. A length of -1 is ignored.
  void add(const Bound& bound, int64_t length, const std::string& source);
  /// -1 if nothing was claimed.
  int64_t of(int name) const { return claims_[size_t(name)] ? claims_[size_t(name)]->length : -1; }

 private:
  struct Claim {
    std::string source;
    int dim;
    int64_t length;
  };
  std::vector<std::optional<Claim>> claims_;
};

/// The lengths of a state that starts without a file: 0 in a dimension that grows; -1 (other tensors decide) in a
/// dimension that stays.
std::vector<int64_t> lengths_at_start(const Executable& executable, const Port& state);
/// The dimensions of a state after an invocation, which are those of the output that feeds it.
std::span<const Bound> bounds_of_next(const Executable& executable, const char* state);

/// Stores the lengths where the rank's kernels read them. Throws Failure (wrong input), with nothing changed, if one is
/// outside its limits.
void store_lengths(RankBase& rank, const LengthClaims& claims);
/// Reads the lengths that steps have computed, and complains if one is outside its limits.
void fetch_lengths(RankBase& rank);

}  // namespace weft
