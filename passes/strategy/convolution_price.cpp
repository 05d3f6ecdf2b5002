// Prices are sums of a few counts, each with a coefficient in nanoseconds: of a row, an output, a product. They were
// fitted by least squares to the times of the runtime's functions on a Sapphire Rapids core, for AVX2 and for AVX-512.
#include "passes/strategy/convolution_price.h"

#include <cmath>

namespace weftc {

namespace {

/// Nanoseconds of 16 products of a vector of outputs, by what computes them; half as many lanes take twice as long.
struct ProductPrices {
  double direct, unfolded, tiled, large;
};
constexpr ProductPrices kOfAvx512{0.234, 0.19, 0.224, 0.35};
constexpr ProductPrices kOfAvx2{0.27, 0.33, 0.36, 0.59};

ProductPrices product_prices(const Target& target) {
  if (target.vector_floats >= 16) return kOfAvx512;
  const double factor = 8. / target.vector_floats * (target.has_fma ? 1 : 2);
  return {kOfAvx2.direct * factor, kOfAvx2.unfolded * factor, kOfAvx2.tiled * factor, kOfAvx2.large * factor};
}

double panels_of(double count) { return std::ceil(count / 16); }

/// The counts that prices are made of, as real numbers.
class Price {
 public:
  Price(const WindowGeometry& g, const Target& target)
      : prices_(product_prices(target)),
        images_(static_cast<double>(g.batch.high())),
        groups_(static_cast<double>(g.groups)),
        filters_(static_cast<double>(g.filters)),
        depth_(static_cast<double>(g.channels * g.taps)),
        row_taps_(static_cast<double>(g.taps / g.window.back())),
        inputs_(static_cast<double>(g.inputs.high() * g.channels)),
        outputs_(static_cast<double>(g.outputs.high())),
        rows_(outputs_ / static_cast<double>(g.out.back().high())),
        is_strided_(g.stride.back() > 1),
        geometry_(g) {}

  std::optional<double> operator()(const DirectConvolution& s) const {
    if (s.is_product || s.together > 1) return {};
    const double tiles = images_ * outputs_ * groups_ * panels_of(filters_);
    const double copied = s.copies_image ? kTransposed * images_ * groups_ * inputs_ : 0;
    return tiles * (7.5 + prices_.direct * depth_ + 0.3 * row_taps_) + 0.6 * groups_ * panels_of(filters_) * depth_ +
           copied;
  }

  std::optional<double> operator()(const ChannelConvolution& s) const {
    const double vectors = images_ * panels_of(groups_), read = vectors * inputs_;
    const double filters = s.copies_filters ? kTransposed * groups_ * depth_ : 0;
    const double copied = filters + (s.copies_image ? kTransposed * images_ * groups_ * inputs_ : 0);
    switch (channel_path(channels_as_taps(geometry_))) {
      case ChannelPath::TapRow:
        return vectors * outputs_ * (6 + prices_.tiled * depth_) + 0.85 * read + copied;
      case ChannelPath::LargeWindows:
        return vectors * outputs_ * (7.8 + prices_.large * depth_) + 5 * read + copied;
      case ChannelPath::AnyWindow:
        return vectors * outputs_ * (2 + 0.95 * depth_) + 0.8 * read + copied;
    }
    return {};
  }

  std::optional<double> operator()(const PlaneConvolution&) const {
    const double width = outputs_ / rows_, a_tap = is_strided_ ? 0.26 : 0.08;
    return images_ * groups_ * filters_ * rows_ * (25 + depth_ * (3.6 + a_tap * width));
  }

  std::optional<double> operator()(const UnfoldedConvolution&) const {
    const double an_element = is_strided_ ? 0.57 : 0.37;
    const double far = filters_ >= 64 && outputs_ >= 1024 ? 0.1 : 0;  // rows of results lie pages apart
    return images_ * groups_ *
           (50 + depth_ * (6 * rows_ + an_element * outputs_) +
            prices_.unfolded * panels_of(outputs_) * depth_ * filters_ + (0.3 + far) * filters_ * outputs_);
  }

  template <class Other>
  std::optional<double> operator()(const Other&) const {
    return {};
  }

 private:
  static constexpr double kTransposed = 0.5;  // of an element that is brought to another place

  ProductPrices prices_;
  double images_, groups_, filters_, depth_, row_taps_;
  double inputs_, outputs_, rows_;  // of a group of an image: elements, elements of a filter's result, their rows
  bool is_strided_;
  const WindowGeometry& geometry_;
};

}  // namespace

std::optional<double> convolution_seconds(const Strategy& strategy, const KernelBody& body, const Target& target) {
  const ValueId root = target.has_grid() ? ValueId{} : contraction_of(body.body);
  if (!root || body.body.producer_op(root).kind != OpKind::Conv || body.body.type(root).dtype != DType::F32) return {};
  const std::optional<WindowGeometry> geometry = window_geometry(body, root);
  if (!geometry || geometry->plain) return {};
  const std::optional<double> nanoseconds = std::visit(Price(*geometry, target), strategy);
  return nanoseconds ? std::optional(*nanoseconds * 1e-9) : std::nullopt;
}

}  // namespace weftc
