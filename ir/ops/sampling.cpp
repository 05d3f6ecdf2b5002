// Taps, their products over the spatial dimensions, and the Gathers that read them.
#include "ir/ops/sampling.h"

namespace weftc {

Term border_index(Term position, int64_t extent) {
  return position.floor().cast(DType::I64).clamp(0, static_cast<double>(extent - 1));
}

Term is_index(Term position, int64_t extent) { return position >= 0 && position <= static_cast<double>(extent - 1); }

std::vector<SampleTap> linear_taps(Term position, int64_t extent) {
  const Term low = position.floor(), high = low + 1, part = position - low;
  return {{border_index(low, extent), 1 - part, is_index(low, extent)},
          {border_index(high, extent), part, is_index(high, extent)}};
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

}  // namespace

std::vector<Term> sampled(Builder& build, Term x, Term image, const SampleTaps& taps) {
  const Dims dims = x.dims(), strides = strides_of(dims);
  std::vector<Combination> all{{image, {}, {}}};
  for (size_t d = 0; d < taps.size(); ++d) {
    std::vector<Combination> longer;
    for (const SampleTap& tap : taps[d]) {
      const Term step = tap.index * static_cast<double>(strides[d + 2]);
      for (const Combination& c : all)
        longer.push_back({c.position + step, both(c.weight, tap.weight, OpKind::Mul),
                          both(c.is_inside, tap.is_inside, OpKind::And)});
    }
    all = longer;
  }
  const Term flat = x.reshape({element_count(dims)});
  std::vector<Term> elements;
  for (const Combination& c : all) {
    Term element = pick(build, flat, c.position, 0);
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

Term image_positions(Builder& build, const Dims& x, int ndim) {
  const auto each = static_cast<double>(strides_of(x)[1]);
  return positions(build, DType::I64, x[0], 0, ndim, each * static_cast<double>(x[1])) +
         positions(build, DType::I64, x[1], 1, ndim, each);
}

}  // namespace weftc
