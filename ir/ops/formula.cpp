// The functions of formula.h that are longer than a line.
#include "ir/ops/formula.h"

namespace weftc {

Term Term::slice(int64_t axis, int64_t first, int64_t last) const {
  const Dims all = dims();
  if (first == 0 && last == all[axis]) return *this;
  return {*build_, build_->op(OpKind::Slice, {value_}, slice_of(all, axis, first, last))};
}

Term positions(Builder& build, DType dtype, int64_t count, int axis, int ndim, double step, double start) {
  Dims dims(ndim, 1);
  dims[axis] = count;
  return {
      build,
      build.op(
          OpKind::Iota, {},
          {{"axis", int64_t{axis}}, {"dtype", dtype_attr(dtype)}, {"shape", dims}, {"start", start}, {"step", step}})};
}

Term positions(Builder& build, DType dtype, const Extent& count, int axis, int ndim) {
  Shape shape(static_cast<size_t>(ndim), Extent{1});
  shape[static_cast<size_t>(axis)] = count;
  return {build, build.with_lengths(positions(build, dtype, count.bound, axis, ndim).value(), shape)};
}

Term constant(Builder& build, DType dtype, const Dims& dims, const std::vector<double>& values) {
  Tensor tensor(dtype, dims);
  for (size_t i = 0; i < values.size(); ++i) tensor.put(static_cast<int64_t>(i), values[i]);
  return {build, build.constant(tensor)};
}

Term gather(Builder& build, Term data, Term indices, int64_t axis) {
  return {build,
          build.op(OpKind::Gather, {data.value(), indices.value()}, {{"axis", axis}, {"from_front", int64_t{1}}})};
}

Term pick(Builder& build, Term data, Term indices, int64_t axis) {
  return {build, build.op(OpKind::Gather, {data.value(), indices.value()}, {{"axis", axis}, {"inside", int64_t{1}}})};
}

Term product(Term a, Term b) { return a.apply(OpKind::MatMul, b); }

}  // namespace weftc
