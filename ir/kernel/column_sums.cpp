#include "ir/kernel/column_sums.h"

#include "ir/base/contains.h"
#include "ir/op_def.h"

namespace weftc {

/// The only reducing op, if no other op in the body combines several elements.
static const Op* only_reduction(const Graph& body) {
  const Op* found = nullptr;
  for (const OpId id : body.order()) {
    const Category c = category(body.op(id));
    if (c == Category::Contraction || c == Category::Scan) return nullptr;
    if (c != Category::Reduction) continue;
    if (found || !body.op(id).has("axes")) return nullptr;
    found = &body.op(id);
  }
  return found;
}

/// Whether the parameter's fastest dimension in memory is kept and has several elements, and reduced dimensions are
/// adjacent, so that one loop covers them.
static bool is_read_down(const Storage& storage, const Dims& dims, const std::vector<int64_t>& axes) {
  constexpr int64_t kFewest = 8;
  std::vector<size_t> order;
  for (const Storage::Part& part : storage.parts) order.push_back(static_cast<size_t>(part.dim));
  for (size_t d = 0; storage.is_row_major() && d < dims.size(); ++d) order.push_back(d);
  const auto is_reduced = [&](size_t d) { return contains(axes, static_cast<int64_t>(d)); };
  if (is_reduced(order.back()) || dims[order.back()] < kFewest) return false;
  int runs = 0;
  for (size_t i = 0; i < order.size(); ++i) runs += is_reduced(order[i]) && (i == 0 || !is_reduced(order[i - 1]));
  return runs == 1;
}

bool sums_down_columns(const KernelBody& body) {
  const Op* reduction = only_reduction(body.body);
  if (!reduction) return false;
  const Dims dims = body.dims(reduction->inputs[0]);
  const auto has_all = [&](ValueId v) { return element_count(body.dims(v)) == element_count(dims); };
  for (const Graph::Output& output : body.body.outputs())
    if (has_all(output.value)) return false;
  bool is_down = false;
  for (const OpId id : body.body.order()) {
    const Op& op = body.body.op(id);
    if (op.outputs.empty() || !has_all(op.outputs[0])) continue;
    if (category(op) == Category::View || category(op) == Category::Index) return false;
    if (op.kind != OpKind::Input) continue;
    const ValueId input = op.outputs[0];
    const Storage& storage = body.kernel.parameters[body.input_parameter(input)].storage;
    if (body.dims(input) != dims || !is_read_down(storage, dims, reduction->ints("axes"))) return false;
    is_down = true;
  }
  return is_down;
}

}  // namespace weftc
