// Taps, their products over the spatial dimensions, and the Gathers that read them.
#include "ir/ops/sampling.h"

namespace weftc {

Term extent_plus(Builder& build, Term like, const Extent& extent, double more) {
  if (!extent.is_run_time()) return like.scalar(static_cast<double>(extent.bound) + more);
  const Term length = Term(build, build.length(length_of(extent))).cast(like.dtype());
  return more == 0 ? length : length + more;
}

Term border_index(Builder& build, Term position, const Extent& extent) {
  const Term index = position.floor().cast(DType::I64).apply(OpKind::Max, 0);
  return index.apply(OpKind::Min, extent_plus(build, index, extent, -1));
}

Term is_index(Builder& build, Term position, const Extent& extent) {
  return position >= 0 && position <= extent_plus(build, position, extent, -1);
}

std::vector<SampleTap> linear_taps(Builder& build, Term position, const Extent& extent) {
  const Term low = position.floor(), high = low + 1, part = position - low;
  return {{border_index(build, low, extent), 1 - part, is_index(build, low, extent)},
          {border_index(build, high, extent), part, is_index(build, high, extent)}};
}

namespace {

/// A combination of taps of the first dimensions.
struct Combination {
  Term position;
  std::optional<Term> weight, is_inside;
};

std::optional<Term> both(std::optional<Term> a, std::optional<Term> b, OpKind kind) {
  return a && b ? a->apply(kind, *b) : a ? a : b;
}

/// Integers times the number of elements of the shape's dimensions from `first` on.
Term times_elements(Builder& build, Term numbers, const Shape& shape, size_t first) {
  Length count = 1;
  for (size_t d = first; d < shape.size(); ++d) count = count * length_of(shape[d]);
  return numbers * Term(build, build.length(count));
}

/// All dimensions as one.
Term flat(Term x) {
  Length count = 1;
  int64_t bound = 1;
  for (const Extent& extent : x.shape()) count = count * length_of(extent), bound *= extent.bound;
  return x.reshape_to({count.is_constant() ? Extent{bound} : run_time_extent(bound, count)});
}

}  // namespace

std::vector<Term> sampled(Builder& build, Term x, Term image, const SampleTaps& taps) {
  const Shape shape = x.shape();
  std::vector<Combination> all{{image, {}, {}}};
  for (size_t d = 0; d < taps.size(); ++d) {
    std::vector<Combination> longer;
    for (const SampleTap& tap : taps[d]) {
      const Term step = times_elements(build, tap.index, shape, d + 3);
      for (const Combination& c : all)
        longer.push_back({c.position + step, both(c.weight, tap.weight, OpKind::Mul),
                          both(c.is_inside, tap.is_inside, OpKind::And)});
    }
    all = longer;
  }
  const Term all_elements = flat(x);
  std::vector<Term> elements;
  for (const Combination& c : all) {
    Term element = pick(build, all_elements, c.position, 0);
    if (c.is_inside) element = c.is_inside->choose(element, element.scalar(0));
    elements.push_back(c.weight ? element * *c.weight : element);
  }
  return elements;
}

Term sample_sum(Builder& build, Term x, Term image, const SampleTaps& taps) {
  const std::vector<Term> elements = sampled(build, x, image, taps);
  Term sum = elements[0];
  for (size_t i = 1; i < elements.size(); ++i) sum = sum + elements[i];
  return sum;
}

Term image_positions(Builder& build, const Shape& x, int ndim) {
  return times_elements(build, positions(build, DType::I64, x[0], 0, ndim), x, 1) +
         times_elements(build, positions(build, DType::I64, x[1], 1, ndim), x, 2);
}

}  // namespace weftc
