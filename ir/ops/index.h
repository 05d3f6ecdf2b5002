// Common code of the records of gathers and scatters: indices are global, but a rank holds a slice of the data that
// they address.
#pragma once
#include <unordered_map>

#include "ir/ops/formula.h"

namespace weftc {

/// Finds where a rank holds global indices of one dimension of an operand. With f32[8] sliced over two ranks, rank 1
/// holds indices 4 to 7 at positions 0 to 3. There local(5) is 1; on rank 0 it is -1, as for every index outside the
/// tensor.
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

/// Checks the known indices of operand 1. False after reporting one outside of its dimension.
bool are_indices_inside(const OpView& op);
/// Conditions on lengths of dimensions from constant tuples of indices.
std::vector<LengthRelation> relations_of_tuples(const OpView& op);

/// Zeros of the shape `data`, to which g is added where a Gather along `axis` by these indices reads. Each element gets
/// the sum of all its contributions. g: [data before the axis, indices, data after it].
Term added_along(Builder& build, const Dims& data, int64_t axis, const Term& indices, const Term& g);

/// Conditions on the length of dimension `axis` of operand 0, if the elements of operand 1 are a range or known.
std::vector<LengthRelation> relations_of_indices(const OpView& op, int64_t axis);

}  // namespace weftc
