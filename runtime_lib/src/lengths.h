// The lengths that only a request knows: what its tensors say of them, and what they then are for a rank.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "rank_base.h"

namespace weft {

/// What tensors say of named lengths. Those that share one must say the same.
class LengthClaims {
 public:
  explicit LengthClaims(const Executable& executable) : claims_(executable.lengths.size()) {}
  /// Throws Failure (wrong input), which names both, where another tensor has said something else. `source` is how a
  /// message names the tensor. A length of -1 says nothing.
  void add(const Bound& bound, int64_t length, const std::string& source);
  /// -1 where nothing was said.
  int64_t of(int name) const { return claims_[size_t(name)] ? claims_[size_t(name)]->length : -1; }

 private:
  struct Claim {
    std::string source;
    int dim;
    int64_t length;
  };
  std::vector<std::optional<Claim>> claims_;
};

/// The lengths that a state has at its start where no file says it: 0 where it grows, -1 (what the others say) where
/// the dimension stays as it is.
std::vector<int64_t> lengths_at_start(const Executable& executable, const Port& state);
/// The dimensions of a state behind an invocation: those of the output that feeds it.
std::span<const Bound> bounds_of_next(const Executable& executable, const char* state);

/// Puts the lengths where the rank's kernels read them. Throws Failure (wrong input), with nothing changed, where one
/// is less or more than it may be.
void store_lengths(RankBase& rank, const LengthClaims& claims);
/// Takes those that steps have made from where they lie, and complains where one is beyond its limits.
void fetch_lengths(RankBase& rank);

}  // namespace weft
