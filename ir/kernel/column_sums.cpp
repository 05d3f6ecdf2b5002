#include "ir/kernel/column_sums.h"

#include "ir/base/contains.h"
#include "ir/op_def.h"

namespace weftc {

/// Whether the dimension of the parameter whose neighbours are neighbours in memory is kept, and has some elements.
static bool keeps_neighbours(const Parameter& parameter, const Dims& dims, const std::vector<int64_t>& axes) {
  constexpr int64_t kFewest = 8;
  const std::vector<Storage::Part>& parts = parameter.storage.parts;
  const size_t last = parts.empty() ? dims.size() - 1 : static_cast<size_t>(parts.back().dim);
  return !contains(axes, static_cast<int64_t>(last)) && dims[last] >= kFewest;
}

bool sums_down_columns(const KernelBody& body) {
  bool is_down = false;
  for (const OpId id : body.body.order()) {
    const Op& op = body.body.op(id);
    if (category(op) != Category::Reduction || !op.has("axes")) continue;
    const Dims dims = body.dims(op.inputs[0]);
    const std::vector<int64_t>& axes = op.ints("axes");
    for (const ValueId input : body.body.inputs()) {
      if (body.dims(input) != dims) continue;
      if (!keeps_neighbours(body.kernel.parameters[body.input_parameter(input)], dims, axes)) return false;
      is_down = true;
    }
  }
  return is_down;
}

}  // namespace weftc
