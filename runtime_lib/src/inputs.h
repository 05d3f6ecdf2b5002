// The inputs of requests for any variant of the executable. Their lengths select the variant before a rank takes its
// parts.
#pragma once
#include <vector>

#include "tensors.h"

namespace weft {

/// A tensor of a current or coming request: its name and shape.
struct Announced {
  const char* input;
  std::vector<int64_t> shape;
};

class Inputs {
 public:
  Inputs(RankBase& rank, const Options& options);
  /// Chooses the variant for the files of this invocation, and loads them.
  void load(int invocation);
  /// Chooses the variant for tensors that are given next. Throws Failure (wrong input) if none accepts them.
  void expect(const std::vector<Announced>& tensors);
  /// Takes this rank's part of a tensor, for the next upload.
  void give(const WholeTensor& tensor);
  /// As VariantInputs does.
  void upload(const States& states) { current().upload(states); }

 private:
  std::vector<Announced> announced_files(int invocation) const;
  VariantInputs& current() { return of_variants_[rank_.variant_number]; }

  RankBase& rank_;
  const Options& options_;
  std::vector<VariantInputs> of_variants_;
};

}  // namespace weft
