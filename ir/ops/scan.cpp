// CumSum (ONNX CumSum-14): the sum of all elements up to each one along an axis; exclusive leaves the element
// itself out, reverse begins at the end. The axis must be whole on each rank, since a prefix needs all that is
// in front of it; other dimensions may be sliced.
//
//   x = 1 2 3 4    ->    1 3 6 10     exclusive: 0 1 3 6     reverse: 10 9 7 4
#include "ir/ops/record.h"

namespace weftc {

/// The operand's type; the axis is an operand of ONNX that must be known.
static bool infer_cumsum(const OpView& op, std::vector<TensorType>& results) {
  if (!is_given(op, 1, "axis", "axis") || !op.axis("axis", op.type(0).ndim())) return false;
  return infer_same(op, results);
}

/// The axis must be whole, all other dimensions pass.
static FactorRule factors_cumsum(const OpView& op) {
  FactorRule rule = pass_rule(op.type(0).shape);
  rule.factors[from_front(int_of(op.op(), "axis"), op.type(0).ndim())].role = Factor::Role::Whole;
  std::vector<int>& dims = rule.inputs.emplace_back();
  for (int d = 0; d < op.type(0).ndim(); ++d) dims.push_back(d);
  rule.outputs = {dims};
  return rule;
}

/// One running sum for each index of the other dims; reals in double, integers wrap.
static void eval_cumsum(EvalContext& context) {
  const Tensor& x = context.in(0);
  const int64_t axis = from_front(int_of(context.op, "axis"), static_cast<int64_t>(x.dims.size()));
  const bool exclusive = int_of(context.op, "exclusive"), reverse = int_of(context.op, "reverse");
  const int64_t stride = strides_of(x.dims)[axis], count = x.dims[axis];
  Dims others = x.dims;
  others[axis] = 1;
  Tensor result(x.dtype, context.result_dims[0]);
  const Dims strides = strides_of(x.dims);
  for (Index at(others); at.more(); at.next()) {
    double sum = 0;
    uint64_t whole = 0;
    for (int64_t i = 0; i < count; ++i) {
      const int64_t to = at.dot(strides) + (reverse ? count - 1 - i : i) * stride;
      if (exclusive && x.is_real()) result.real[to] = sum;
      if (exclusive && !x.is_real()) result.put_int(to, static_cast<int64_t>(whole));
      if (x.is_real())
        sum += x.real[to];
      else
        whole += static_cast<uint64_t>(x.integers[to]);
      if (!exclusive && x.is_real()) result.real[to] = sum;
      if (!exclusive && !x.is_real()) result.put_int(to, static_cast<int64_t>(whole));
    }
  }
  context.results[0] = std::move(result);
}

const OpDef kCumSum{.kind = OpKind::CumSum,
                    .name = "CumSum",
                    .onnx = {"CumSum", 11},
                    .attrs = {{"axis", AttrType::Int}, {"exclusive", AttrType::Int, 0}, {"reverse", AttrType::Int, 0}},
                    .inputs = {1, 2},
                    .category = Category::Scan,
                    .constant_operands = {{1, "axis", AttrType::Int}},
                    .infer = infer_cumsum,
                    .canonicalize = canonical_axis,
                    .factors = factors_cumsum,
                    .linear = {{0}},
                    .eval = eval_cumsum};

}  // namespace weftc
