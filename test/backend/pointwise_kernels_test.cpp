// The kernel text of every pointwise op (`scalar`, `scalar_int`): a kernel for each row of the table, all in one
// program, gives the values that ONNX defines. A case has the name of its op.
#include <map>

#include "test/backend/one_plan.h"
#include "test/ir/pointwise_rows.h"

using namespace weftc;
using namespace weftc::test;

namespace {

/// The elements again and again, so that both the vectorised loop of a kernel and what it leaves over see each of them.
Tensor repeated(const Tensor& once) {
  constexpr int64_t kElements = 67;
  Tensor many(once.dtype, {kElements});
  for (int64_t i = 0; i < kElements; ++i)
    if (once.is_real())
      many.put(i, once.at(i % once.size()));
    else
      many.put_int(i, once.int_at(i % once.size()));
  return many;
}

KernelCase kernel_of(const PointwiseRow& row, int number) {
  KernelCase c(op_def(row.kind).name + (number > 1 ? "_" + std::to_string(number) : ""));
  std::vector<ValueId> operands;
  for (const Tensor& tensor : row.inputs)
    operands.push_back(c.parameter("x" + std::to_string(operands.size()), repeated(tensor)));
  c.output(c.op(row.kind, operands, row.attrs));
  c.expected = {repeated(row.expected)};
  c.tolerance = 1e-5;
  return c;
}

}  // namespace

TEST_CASE("kernels of pointwise ops give what ONNX defines") {
  std::vector<KernelCase> cases;
  std::map<OpKind, int> rows_of;
  for (const PointwiseRow& row : pointwise_rows()) cases.push_back(kernel_of(row, ++rows_of[row.kind]));
  check_cases(std::move(cases));
}
