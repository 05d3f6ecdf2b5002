// Matrix products with NumPy's broadcasting of the leading dimensions (ONNX MatMul-13): [.., m, k] x [.., k, n] -> [..,
// m, n]. A vector is treated as a row (left) or a column (right), and its dim is dropped from the result. The primitive
// form has matrices only; vectors are reshaped. Layouts follow from the factors: with w sliced by columns, y is sliced;
// with w sliced by rows over k, each rank's y is a partial sum.
#include "ir/ops/matmul.h"

#include "ir/ops/gradient.h"

namespace weftc {

/// The dims before the matrix dims; empty for a vector.
static Shape batch_of(const Shape& shape) { return shape.size() < 2 ? Shape{} : Shape(shape.begin(), shape.end() - 2); }

/// The result's batch dims keep run-time lengths.
std::optional<Shape> product_shape(const OpView& op, int left, int right) {
  if (!has_ndim(op, left, 1) || !has_ndim(op, right, 1)) return {};
  const Shape &a = op.type(left).shape, &b = op.type(right).shape;
  const Extent &ka = a.back(), &kb = b.size() == 1 ? b[0] : b[b.size() - 2];
  const bool may_multiply = one_extent(ka, kb).has_value();
  std::optional<Shape> shape = broadcast({batch_of(a), batch_of(b)});
  if (!may_multiply)
    op.fail("matmul-inner-dim", "inner dimensions differ: {} and {}", shape_text({ka}), shape_text({kb}));
  else if (!shape)
    op.fail("matmul-batch-dims", "leading dimensions of {} and {} cannot be broadcast together", dims_text(bounds(a)),
            dims_text(bounds(b)));
  if (!may_multiply || !shape) return {};
  if (a.size() > 1) shape->push_back(a[a.size() - 2]);
  if (b.size() > 1) shape->push_back(b.back());
  return shape;
}

/// True for products of floats with operands stored in 16 bits, which the pass lower-precision makes.
static bool is_mixed(const OpView& op) { return op.op().has("mixed"); }

static bool infer_matmul(const OpView& op, std::vector<TensorType>& results) {
  if (!is_mixed(op) && !same_dtypes(op)) return false;
  const std::optional<Shape> shape = product_shape(op, 0, 1);
  if (!shape) return false;
  results = {{is_mixed(op) ? DType::F32 : op.type(0).dtype, *shape, {}}};
  return true;
}

/// Factors: the batch dims of the result, then m and n, which pass, then k, which is summed. A batch dim of extent 1
/// that is broadcast has no factor (-1). Shorter operands are aligned right.
FactorRule factors_matmul(const OpView& op) {
  const Shape& result = op.result_type(0).shape;
  FactorRule rule = pass_rule(result);
  const int batch = static_cast<int>(result.size()) - 2, m = batch, n = batch + 1, k = batch + 2;
  rule.factors.push_back({op.type(0).shape.back().bound, Factor::Role::Reduce, ReduceOp::Sum});
  for (int i = 0; i < 2; ++i) {
    const Shape& shape = op.type(i).shape;
    const int own = static_cast<int>(shape.size()) - 2;
    std::vector<int>& dims = rule.inputs.emplace_back();
    for (int d = 0; d < own; ++d) {
      const int factor = batch - own + d;
      dims.push_back(is_one(shape[d]) && !is_one(result[factor]) ? -1 : factor);
    }
    dims.insert(dims.end(), {i == 0 ? m : k, i == 0 ? k : n});
  }
  std::vector<int>& out = rule.outputs.emplace_back();
  for (int d = 0; d < batch + 2; ++d) out.push_back(d);
  return rule;
}

namespace {
/// An operand as a matrix for each index of its batch dims; a vector is a matrix of one row or column.
struct Matrices {
  const Tensor& tensor;
  Dims batch;
  int64_t rows, columns;
};
}  // namespace

/// `is_left` decides how a vector is treated: as a row on the left, as a column on the right.
static Matrices matrices(const Tensor& t, bool is_left) {
  if (t.dims.size() == 1) return {t, {}, is_left ? 1 : t.dims[0], is_left ? t.dims[0] : 1};
  return {t, Dims(t.dims.begin(), t.dims.end() - 2), t.dims[t.dims.size() - 2], t.dims.back()};
}

/// One product of matrices that begin at a_at and b_at, written at `at`. Integers wrap as in C's unsigned arithmetic.
static void multiply(const Matrices& a, int64_t a_at, const Matrices& b, int64_t b_at, Tensor& result, int64_t at) {
  const bool real = result.is_real();
  for (int64_t m = 0; m < a.rows; ++m)
    for (int64_t n = 0; n < b.columns; ++n) {
      double sum = 0;
      uint64_t whole = 0;
      for (int64_t k = 0; k < a.columns; ++k) {
        const int64_t left = a_at + m * a.columns + k, right = b_at + k * b.columns + n;
        if (real)
          sum += a.tensor.real[left] * b.tensor.real[right];
        else
          whole += static_cast<uint64_t>(a.tensor.integers[left]) * static_cast<uint64_t>(b.tensor.integers[right]);
      }
      const int64_t to = at + m * b.columns + n;
      if (real)
        result.real[to] = sum;
      else
        result.put_int(to, static_cast<int64_t>(whole));
    }
}

void multiply_matrices(EvalContext& context, const Tensor& left, const Tensor& right) {
  const Matrices a = matrices(left, true), b = matrices(right, false);
  Tensor result(context.result_dtypes[0], context.result_dims[0]);
  const int64_t size = a.rows * b.columns;
  const Dims batch = bounds(*broadcast({shape_of(a.batch), shape_of(b.batch)}));
  const int ndim = static_cast<int>(batch.size());
  const Dims a_strides = broadcast_strides(a.batch, ndim), b_strides = broadcast_strides(b.batch, ndim);
  for (Index at(batch); at.more(); at.next())
    multiply(a, at.dot(a_strides) * a.rows * a.columns, b, at.dot(b_strides) * b.rows * b.columns, result,
             at.linear() * size);
  context.results[0] = std::move(result);
}

static void eval_matmul(EvalContext& context) { multiply_matrices(context, context.in(0), context.in(1)); }

/// Vectors become matrices of one row or column, and the product drops that dim again.
static std::vector<ValueId> decompose_matmul(Builder& build, const OpView& op) {
  ValueId a = op.op().inputs[0], b = op.op().inputs[1];
  const Dims a_dims = op.dims(0), b_dims = op.dims(1), result = op.result_type(0).dims();
  if (a_dims.size() == 1) a = build.reshape(a, {1, a_dims[0]});
  if (b_dims.size() == 1) b = build.reshape(b, {b_dims[0], 1});
  return {build.reshape(build.op(OpKind::MatMul, {a, b}), result)};
}

/// The matrices' transposes.
static Term turned(const Term& matrices) {
  std::vector<int64_t> order = range_of(0, static_cast<int64_t>(matrices.dims().size()));
  std::swap(order[order.size() - 1], order[order.size() - 2]);
  return matrices.transpose(order);
}

/// Joins the rows of all leading dimensions into one matrix.
static Term flat(const Term& matrices) {
  const Dims dims = matrices.dims();
  return dims.size() == 2 ? matrices
                          : matrices.reshape({element_count(dims) / std::max<int64_t>(dims.back(), 1), dims.back()});
}

/// If one matrix is multiplied with all of x, its derivative is one product, which also sums over the leading
/// dimensions.
static Derivatives gradient_of_product(const BackwardStep& s) {
  const Term x = s.in(0), w = s.in(1);
  const bool is_shared = w.dims().size() == 2 && element_count(x.dims()) > 0;
  return {product(s.g, turned(w)), is_shared ? product(turned(flat(x)), flat(s.g)) : product(turned(x), s.g)};
}

const OpDef kMatMul{
    .kind = OpKind::MatMul,
    .name = "MatMul",
    .onnx = {"MatMul"},
    .attrs = {{"mixed", AttrType::Int, {}, false, true}},
    .inputs = {2, 2},
    .category = Category::Contraction,
    .infer = infer_matmul,
    .factors = factors_matmul,
    .linear = {{0}, {1}},
    .gradient = gradient_of_product,
    .eval = eval_matmul,
    .decompose = decompose_matmul,
    .is_primitive = [](const OpView& op) { return op.type(0).ndim() > 1 && op.type(1).ndim() > 1; },
};

}  // namespace weftc
