// What the records of gathers and scatters share: indices are global, but a rank holds a slice of what they
// address.
#pragma once
#include <unordered_map>

#include "ir/ops/formula.h"

namespace weftc {

/// Finds where a rank holds global indices of one dimension of an operand. With f32[8] sliced over two ranks,
/// rank 1 holds indices 4 to 7 at positions 0 to 3: local(5) is 1 there and -1 on rank 0, and so is every index
/// outside the tensor.
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

/// False after reporting one of the indices that operand 1 is known to hold, which lies outside of its dimension.
bool are_indices_inside(const OpView& op);
/// What constant tuples of indices demand of the lengths of their dimensions.
std::vector<LengthRelation> relations_of_tuples(const OpView& op);

/// Zeros of the shape `data`, to which g is added where a Gather along `axis` by these indices reads: the sum of all
/// that was made of each element. g: [data in front of the axis, indices, data behind it].
Term added_along(Builder& build, const Dims& data, int64_t axis, const Term& indices, const Term& g);

/// What operand 1 demands of the length of the dimension `axis` of operand 0, where its elements are counted up or
/// known.
std::vector<LengthRelation> relations_of_indices(const OpView& op, int64_t axis);

}  // namespace weftc
