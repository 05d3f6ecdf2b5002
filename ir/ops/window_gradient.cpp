#include "ir/ops/window_gradient.h"

#include <algorithm>

namespace weftc {

namespace {
/// One number of each spatial dim.
template <class Of>
std::vector<int64_t> of_each(const Window& window, const Of& of) {
  std::vector<int64_t> numbers;
  for (const WindowDim& dim : window) numbers.push_back(of(dim));
  return numbers;
}

std::vector<int64_t> joined(std::vector<int64_t> numbers, const std::vector<int64_t>& more) {
  numbers.insert(numbers.end(), more.begin(), more.end());
  return numbers;
}

/// Number of elements after the last one that a window reads; negative if windows exceed the image.
int64_t unread(const WindowDim& dim) { return dim.in - ((dim.out - 1) * dim.stride + dim.reach() - dim.before); }
}  // namespace

Term spread_over_windows(Builder& build, const Term& g, const Term& filters, const Window& window, int64_t group) {
  const auto pads = joined(of_each(window, [](const WindowDim& d) { return d.before; }),
                           of_each(window, [](const WindowDim& d) { return std::max<int64_t>(0, -unread(d)); }));
  const Attrs attrs{
      {"dilations", of_each(window, [](const WindowDim& d) { return d.dilation; })},
      {"group", group},
      {"output_padding", of_each(window, [](const WindowDim& d) { return std::max<int64_t>(0, unread(d)); })},
      {"pads", pads},
      {"strides", of_each(window, [](const WindowDim& d) { return d.stride; })}};
  return {build, build.op(OpKind::ConvTranspose, {g.value(), filters.value()}, attrs)};
}

/// Each group's channels become the batch: [N, G, C/G, ...] -> [C/G, G * N, ...], which is convolved with the filters
/// [G * M/G, N, ...].
Term gradient_of_filters(Builder& build, const Term& image, const Term& g, const Window& window, int64_t group) {
  const Dims x = image.dims(), y = g.dims();
  const int64_t ndim = static_cast<int64_t>(x.size()), each = x[1] / group;
  Dims apart{x[0], group, each}, batch{each, group * x[0]};
  apart.insert(apart.end(), x.begin() + 2, x.end());
  batch.insert(batch.end(), x.begin() + 2, x.end());
  const Term channels = image.reshape(apart).transpose(joined({2, 1, 0}, range_of(3, ndim + 1))).reshape(batch);
  const std::vector<int64_t> turned = joined({1, 0}, range_of(2, ndim));
  const auto after = of_each(window, [](const WindowDim& d) { return std::max<int64_t>(0, -unread(d)); });
  const Attrs attrs{{"dilations", of_each(window, [](const WindowDim& d) { return d.stride; })},
                    {"group", group},
                    {"pads", joined(of_each(window, [](const WindowDim& d) { return d.before; }), after)},
                    {"strides", of_each(window, [](const WindowDim& d) { return d.dilation; })}};
  Term taps(build, build.op(OpKind::Conv, {channels.value(), g.transpose(turned).value()}, attrs));
  // Elements that no window reads produce additional taps.
  for (size_t d = 0; d < window.size(); ++d) taps = taps.slice(static_cast<int64_t>(2 + d), 0, window[d].kernel);
  return taps.transpose(turned);
}

}  // namespace weftc
