// Shows that each factor of a rule means what it says: an op evaluated on two halves of a factor gives the halves of
// the result (pass) or parts that add up to it (reduce).
#include <doctest/doctest.h>

#include <cmath>
#include <limits>

#include "ir/string_table.h"
#include "ops_test.h"

namespace weftc {

namespace {

/// Elements of `t` whose index in dimension `d`, modulo `period`, is in [first, last).
Tensor cut(const Tensor& t, size_t d, int64_t first, int64_t last, int64_t period) {
  const int64_t block = last - first;
  Dims dims = t.dims;
  dims[d] = t.dims[d] / period * block;
  Tensor part(t.dtype, dims);
  const Dims strides = strides_of(t.dims);
  for (Index at(part.dims); at.more(); at.next())
    part.copy_element(at.linear(), t, at.dot(strides) + (at[d] / block * (period - block) + first) * strides[d]);
  return part;
}
Tensor cut(const Tensor& t, size_t d, int64_t first, int64_t last) { return cut(t, d, first, last, t.dims[d]); }

/// The position of `factor` in the dims of a tensor, or -1.
int dim_of(const std::vector<int>& dims, int factor) {
  for (size_t d = 0; d < dims.size(); ++d)
    if (dims[d] == factor) return static_cast<int>(d);
  return -1;
}

std::vector<int64_t> positions(int64_t first, int64_t last) {
  std::vector<int64_t> all;
  for (int64_t i = first; i < last; ++i) all.push_back(i);
  return all;
}

/// The op on the part [first, last) of a factor, the first result.
Tensor eval_part(OneOp& one, const std::vector<Tensor>& inputs, const FactorRule& rule, int factor, int64_t first,
                 int64_t last) {
  const Op& op = one.module.graph.op(one.op);
  std::vector<Tensor> parts = inputs, results(op.outputs.size());
  const TensorType& type = one.module.graph.type(op.outputs[0]);
  EvalContext context{op, {}, {type.dims()}, {type.dtype}, results, {}, {}, {}, {type.dims()}, {}};
  for (size_t i = 0; i < parts.size(); ++i) {
    context.global_input_dims.push_back(parts[i].dims);
    context.held_inputs.emplace_back(parts[i].dims.size());
    const int d = dim_of(rule.inputs[i], factor);
    if (d < 0) continue;
    parts[i] = cut(parts[i], d, first, last, rule.factors[factor].extent);
    context.held_inputs[i][d] = positions(first, last);
  }
  for (const Tensor& part : parts) context.inputs.push_back(&part);
  context.held_results.emplace_back(type.dims().size());
  if (const int d = dim_of(rule.outputs[0], factor); d >= 0) {
    context.result_dims[0][d] = last - first;
    context.held_results[0][d] = positions(first, last);
  }
  op_def(op).eval(context);
  return results[0];
}

double combine(ReduceOp reduce, double a, double b) {
  switch (reduce) {
    case ReduceOp::Sum:
      return a + b;
    case ReduceOp::Prod:
      return a * b;
    case ReduceOp::Max:
      return std::max(a, b);
    case ReduceOp::Min:
      return std::min(a, b);
  }
  return 0;
}

void check_factors(OneOp& one, const std::vector<Tensor>& inputs) {
  const Tensor whole = one.run()[0];
  const FactorRule rule = factor_rule(one.view());
  for (int f = 0; f < static_cast<int>(rule.factors.size()); ++f) {
    const Factor& factor = rule.factors[f];
    if (factor.role == Factor::Role::Whole || factor.extent < 2) continue;
    CAPTURE(op_def(one.module.graph.op(one.op)).name);
    CAPTURE(f);
    const int64_t middle = factor.extent / 2;
    const Tensor low = eval_part(one, inputs, rule, f, 0, middle),
                 high = eval_part(one, inputs, rule, f, middle, factor.extent);
    const int d = dim_of(rule.outputs[0], f);
    if (factor.role == Factor::Role::Pass) {
      REQUIRE(d >= 0);
      CHECK(relative_error(low, cut(whole, d, 0, middle)) < 1e-12);
      CHECK(relative_error(high, cut(whole, d, middle, factor.extent)) < 1e-12);
      continue;
    }
    CHECK(d < 0);
    Tensor sum = low;
    for (int64_t i = 0; i < sum.size(); ++i) sum.put(i, combine(factor.reduce, low.at(i), high.at(i)));
    CHECK(relative_error(sum, whole) < 1e-12);
  }
}

Tensor ramp(Dims dims) {
  Tensor t(DType::F32, std::move(dims));
  for (int64_t i = 0; i < t.size(); ++i) t.real[i] = std::sin(static_cast<double>(3 * i + 1));
  return t;
}

Tensor bytes(Dims dims, DType dtype) {
  Tensor t(dtype, std::move(dims));
  for (int64_t i = 0; i < t.size(); ++i) t.put_int(i, 37 * i + 5);
  return t;
}

/// "0", "1" and so on.
Tensor names(Dims dims) {
  Tensor t(DType::String, std::move(dims));
  for (int64_t i = 0; i < t.size(); ++i) t.integers[i] = string_id(std::to_string(i));
  return t;
}

using Axes = std::vector<int64_t>;

/// Three trees of one comparison: roots 0, 3 and 6, each followed by its two leaves.
std::vector<Tensor> tree_operands() {
  constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
  // A link is the distance to the first child times 2, plus the feature; a leaf's distance is -1.
  return {ramp({4, 2}), reals({9}, {0, kNaN, kNaN, 0.5, kNaN, kNaN, -0.5, kNaN, kNaN}),
          ints({9}, {2, -2, -2, 3, -2, -2, 2, -2, -2}, DType::I32), ramp({9, 2}),
          ints({3, 3}, {0, 1, 0, 3, 1, 0, 6, 1, 0}, DType::I32)};
}
Attrs tree_attrs(const char* join) {
  return {{"depth", int64_t{1}}, {"feature_bits", int64_t{1}}, {"join", std::string(join)}, {"targets", int64_t{2}}};
}

struct Case {
  OpKind kind;
  std::vector<Tensor> inputs;
  Attrs attrs = {};
};

}  // namespace

TEST_CASE("factors pass and reduce as the rules say") {
  const Tensor indices = ints({3}, {3, -1, 0}), pairs = ints({2, 4}, {0, 3, 1, 1, 2, 2, 0, 3});
  const Case cases[] = {
      {OpKind::Add, {ramp({2, 4}), ramp({4})}},
      {OpKind::Where, {ints({2, 1}, {1, 0}, DType::Bool), ramp({2, 4}), ramp({1, 4})}},
      {OpKind::MatMul, {ramp({2, 4, 6}), ramp({6, 4})}},
      {OpKind::MatMul, {ramp({2, 1, 4, 6}), ramp({3, 6, 2})}},
      {OpKind::ReduceSum, {ramp({4, 6})}, {{"axes", Axes{1}}}},
      {OpKind::ReduceMax, {ramp({4, 6})}, {{"axes", Axes{0}}, {"keepdims", int64_t{0}}}},
      {OpKind::ReduceProd, {ramp({4, 2, 6})}, {{"axes", Axes{0, 2}}}},
      {OpKind::ArgMax, {ramp({4, 6})}, {{"axis", int64_t{1}}}},
      {OpKind::TopK, {ramp({4, 6, 2})}, {{"axis", int64_t{1}}, {"k", int64_t{3}}}},
      {OpKind::Conv, {ramp({2, 4, 5, 5}), ramp({6, 4, 3, 3})}, {{"pads", Axes{1, 1, 1, 1}}}},
      {OpKind::Conv, {ramp({2, 4, 5, 5}), ramp({4, 1, 3, 3})}, {{"group", int64_t{4}}, {"strides", Axes{2, 2}}}},
      {OpKind::Conv, {ramp({2, 4, 5, 5}), ramp({6, 2, 3, 3})}, {{"group", int64_t{2}}, {"dilations", Axes{2, 2}}}},
      {OpKind::MatMulInteger, {bytes({4, 6}, DType::U8), bytes({6, 2}, DType::I8)}, {{"zero", int64_t{7}}}},
      {OpKind::ConvInteger,
       {bytes({2, 4, 5, 5}, DType::I8), bytes({6, 4, 3, 3}, DType::I8)},
       {{"pads", Axes{1, 1, 1, 1}}, {"zero", int64_t{-7}}}},
      {OpKind::MaxPool, {ramp({2, 4, 5, 5})}, {{"kernel_shape", Axes{2, 2}}}},
      {OpKind::Gather, {ramp({2, 4, 6}), indices}, {{"axis", int64_t{1}}}},
      {OpKind::GatherElements, {ramp({2, 4}), pairs}, {{"axis", int64_t{1}}}},
      {OpKind::GatherElements, {ramp({4, 4}), pairs}, {{"axis", int64_t{0}}}},
      {OpKind::GatherND, {ramp({2, 4, 6}), ints({2, 3, 1}, {0, 1, 2, 3, 3, 0})}, {{"batch_dims", int64_t{1}}}},
      {OpKind::ScatterElements,
       {ramp({2, 4}), pairs, ramp({2, 4})},
       {{"axis", int64_t{1}}, {"reduction", std::string("add")}}},
      {OpKind::ScatterND, {ramp({4, 6}), ints({2, 1}, {3, -4}), ramp({2, 6})}},
      {OpKind::CumSum, {ramp({4, 6})}, {{"axis", int64_t{1}}, {"reverse", int64_t{1}}}},
      {OpKind::CumProd, {ramp({4, 6})}, {{"axis", int64_t{0}}, {"exclusive", int64_t{1}}}},
      {OpKind::TreeSums, tree_operands(), tree_attrs("sum")},
      {OpKind::TreeSums, tree_operands(), tree_attrs("min")},
      {OpKind::TreeSums, tree_operands(), tree_attrs("max")},
      {OpKind::TruePositions, {ints({4}, {0, 1, 1, 0}, DType::Bool)}, {{"most", int64_t{4}}}},
      {OpKind::BoxChoice,
       {ramp({2, 4, 4}), ramp({2, 6, 4}), ints({}, {3}), reals({}, {0.1}), reals({}, {-0.5})},
       {{"places", int64_t{2}}}},
      {OpKind::FindString, {names({4, 2}), names({3})}, {{"count", int64_t{3}}}},
      {OpKind::ChangeCase, {names({4, 2}), ints({1, 4}, {'0', '4', 1, 5}, DType::I32)}, {{"count", int64_t{1}}}},
      {OpKind::AutomatonMatch, {names({2, 4}), ints({1, 257}, Axes(257, 0), DType::I32)}},
      {OpKind::StringConcat, {names({2, 4}), names({4})}},
      {OpKind::Gather, {names({2, 4, 6}), indices}, {{"axis", int64_t{1}}}},
      {OpKind::GatherElements, {names({2, 4}), pairs}, {{"axis", int64_t{1}}}},
      {OpKind::Iota, {}, {{"shape", Axes{4, 6}}, {"axis", int64_t{1}}, {"start", 2.0}}},
      {OpKind::RandomUniform, {}, {{"shape", Axes{4, 6}}, {"node", int64_t{3}}}},
  };
  for (const Case& c : cases) {
    OneOp one;
    std::vector<ValueId> operands;
    for (const Tensor& tensor : c.inputs) operands.push_back(one.input(tensor));
    CAPTURE(op_def(c.kind).name);
    REQUIRE(one.add(c.kind, operands, c.attrs));
    check_factors(one, c.inputs);
  }
}

}  // namespace weftc
