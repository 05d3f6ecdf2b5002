// What gather and scatter records share.
#pragma once
#include <unordered_map>

#include "ir/ops/record.h"

namespace weftc {

/// Where a rank holds the global indices of one dimension of an operand.
class HeldIndices {
 public:
  HeldIndices(const EvalContext& context, int input, int dim);
  /// The local position of a global index (negative: from the end), or -1.
  int64_t local(int64_t index) const;

 private:
  std::unordered_map<int64_t, int64_t> places_;
  int64_t local_, global_;
  bool is_mapped_ = false;
};

/// Operand `input` has an integer type, else reports.
bool integer_operand(const OpView& op, int input);

}  // namespace weftc
