// Prices are sums of a few counts, each with a coefficient in nanoseconds: of a row, a tile, a product. They were
// fitted by least squares of relative errors to times on a Sapphire Rapids core, for AVX2 and for AVX-512. Those of
// direct and unfolded convolutions are of emitted kernels, the 355 shapes of test/bench/convolution_grid.py; others are
// of the runtime's functions. Two were set later by a few of these shapes: the single taps of windows in groups, and
// the long lines of planes with AVX-512.
#include "passes/strategy/convolution_price.h"

#include <algorithm>
#include <cmath>

namespace weftc {

namespace {

/// Nanoseconds of 16 products of a vector of outputs, by strategy; half as many lanes take twice as long.
struct ProductPrices {
  double direct, unfolded, rows, short_rows, point, winograd, tiled, large;
  // Not of products:
  double a_tile, a_lone_tile, across_lines;  // of 16 sums of a direct convolution, and what is added to them
  double put_far;                            // of one sum that does not stay in the second cache
  double a_short_tile;                       // of a vector of them that is put out of registers
  double filter_tile, tile_filters;          // of 16 outputs of so many filters, put
  double put_apart;                          // of one of these sums, if no run of outputs begins a line
  double copied, packed;                     // of 16 elements that are unfolded, or packed where nothing is unfolded
};
constexpr ProductPrices kOfAvx512{.direct = 0.172,
                                  .unfolded = 0.168,
                                  .rows = 0.208,
                                  .short_rows = 0.203,
                                  .point = 0.18,
                                  .winograd = 0.18,
                                  .tiled = 0.18,
                                  .large = 0.35,
                                  .a_tile = 2.1,
                                  .a_lone_tile = 1.5,
                                  .across_lines = 1.35,
                                  .put_far = 0,
                                  .a_short_tile = 1.45,
                                  .filter_tile = 20,
                                  .tile_filters = 14,
                                  .put_apart = 0.12,
                                  .copied = 2.4,
                                  .packed = 2.1};
constexpr ProductPrices kOfAvx2{.direct = 0.341,
                                .unfolded = 0.318,
                                .rows = 0.305,
                                .short_rows = 0.363,
                                .point = 0.33,
                                .winograd = 0.42,
                                .tiled = 0.33,
                                .large = 0.59,
                                .a_tile = 4.4,
                                .a_lone_tile = 0,
                                .across_lines = 0,
                                .put_far = 0.1,
                                .a_short_tile = 1,
                                .filter_tile = 18,
                                .tile_filters = 6,
                                .put_apart = 0.16,
                                .copied = 4.3,
                                .packed = 5};

ProductPrices product_prices(const Target& target) {
  if (target.vector_floats >= 16) return kOfAvx512;
  ProductPrices prices = kOfAvx2;
  const double factor = 8. / target.vector_floats * (target.has_fma ? 1 : 2);
  for (double* price : {&prices.direct, &prices.unfolded, &prices.rows, &prices.short_rows, &prices.point,
                        &prices.winograd, &prices.tiled, &prices.large})
    *price *= factor;
  return prices;
}

double panels_of(double count) { return std::ceil(count / 16); }

/// The counts in the prices, as real numbers.
class Price {
 public:
  Price(const WindowGeometry& g, const Target& target)
      : prices_(product_prices(target)),
        lanes_(target.vector_floats),
        images_(static_cast<double>(g.batch.high())),
        groups_(static_cast<double>(g.groups)),
        filters_(static_cast<double>(g.filters)),
        depth_(static_cast<double>(g.channels * g.taps)),
        runs_(static_cast<double>(g.groups > 1 ? g.taps : g.taps / g.window.back())),
        inputs_(static_cast<double>(g.inputs.high() * g.channels)),
        outputs_(static_cast<double>(g.outputs.high())),
        rows_(outputs_ / static_cast<double>(g.out.back().high())),
        is_strided_(g.stride.back() > 1),
        geometry_(g) {}

  std::optional<double> operator()(const DirectConvolution& s) const {
    if (s.together > 1) return {};
    const double copied = this->copied(s, groups_ * filters_ * depth_), outputs = images_ * outputs_;
    if (s.is_short) {
      const double sums = std::ceil(filters_ / lanes_) * (prices_.a_short_tile + short_products());
      return copied + outputs * sums + far_results(true);
    }
    const double panels = groups_ * panels_of(filters_);
    if (s.is_product) return copied + outputs * panels * (2.5 + prices_.rows * depth_) + far_results(false);
    const double tiles = outputs * groups_ * direct_panels();
    const double products = std::max(prices_.direct * tiles * depth_, far(panels * depth_, 4));
    const double across = has_part() ? prices_.across_lines * outputs * panels : 0;
    return copied + tiles * (prices_.a_tile + (groups_ > 1 ? 0.57 : 0.47) * runs_) + across + products +
           far_results(false) + prices_.a_lone_tile * outputs * groups_ * lone_panels() + 0.4 * panels * depth_;
  }

  std::optional<double> operator()(const WinogradConvolution& s) const {
    const double tile = static_cast<double>(s.tile), points = (tile + 2) * (tile + 2), channels = depth_ / 9;
    const auto tiles_along = [&](size_t d) { return std::ceil(static_cast<double>(geometry_.out[d].high()) / tile); };
    const double tiles = images_ * tiles_along(0) * tiles_along(1);
    const double read = points * channels * panels_of(filters_);
    return (s.copies_image ? copied_image() : 0) + 300 + std::max(prices_.winograd * tiles * read, far(read, 4)) +
           tiles * (0.24 * points * channels + 0.21 * tile * tile * filters_);
  }

  std::optional<double> operator()(const ChannelConvolution& s) const {
    const double vectors = images_ * panels_of(groups_), read = vectors * inputs_;
    const double copied = this->copied(s, groups_ * depth_);
    switch (channel_path(channels_as_taps(geometry_))) {
      case ChannelPath::TapRow:
        return vectors * outputs_ * (2 + prices_.tiled * depth_) + 0.8 * read + copied;
      case ChannelPath::LargeWindows:
        return vectors * outputs_ * (7.8 + prices_.large * depth_) + 5 * read + copied;
      case ChannelPath::AnyWindow:
        return vectors * outputs_ * (2 + 0.95 * depth_) + 0.8 * read + copied;
    }
    return {};
  }

  std::optional<double> operator()(const PlaneConvolution&) const {
    const double width = outputs_ / rows_, a_tap = is_strided_ ? 0.27 : lanes_ >= 16 ? 0.066 : 0.08;
    return images_ * groups_ * filters_ * rows_ * (24.5 + depth_ * (4 + a_tap * width));
  }

  std::optional<double> operator()(const PointConvolution&) const {
    constexpr double kManyPlanes = 128;  // many pages, which do not stay near
    const double panels = panels_of(outputs_);
    const double packed = depth_ >= kManyPlanes && inputs_ > kLarge ? 8 : prices_.packed;
    return images_ * groups_ *
           (130 + packed * panels * depth_ + prices_.point * panels * depth_ * filters_ + put_results());
  }

  std::optional<double> operator()(const UnfoldedConvolution&) const {
    const double products = prices_.unfolded * panels_of(outputs_) * depth_ * filters_;
    const double read = depth_ * (filters_ + 16) / 16;
    return images_ * groups_ * (80 + windows_as_panels() + std::max(products, far(read, 5)) + put_results());
  }

  template <class Other>
  std::optional<double> operator()(const Other&) const {
    return {};
  }

 private:
  static constexpr double kTransposed = 1e9 * kSecondsTransposed;
  static constexpr double kLarge = 524288;  // elements that the second cache does not hold
  static constexpr double kHuge = 4 * kLarge;

  double copied_image() const { return kTransposed * images_ * groups_ * inputs_; }

  /// The time to first transpose that many elements of filters, and the image.
  template <class Convolution>
  double copied(const Convolution& s, double filters) const {
    return (s.copies_filters ? kTransposed * filters : 0) + (s.copies_image ? copied_image() : 0);
  }

  /// The least time of `lines` of 16 filter elements that the second cache does not hold.
  static double far(double lines, double a_line) {
    constexpr double kHeldLines = 24576;
    return lines > kHeldLines ? a_line * lines : 0;
  }

  double short_products() const { return prices_.short_rows * lanes_ / 16 * depth_; }

  /// Whether the last panel of several is filled in part, so that the filters of an output end within a line.
  bool has_part() const { return filters_ > 16 && std::fmod(filters_, 16) > 0; }

  /// The time added where results do not stay in the second cache. Tiles ask for what they are about to write, short
  /// products do not; of filters that end within a line some lines are written twice.
  double far_results(bool is_short) const {
    const double results = images_ * groups_ * outputs_ * filters_;
    if (results <= kLarge) return 0;
    return results * ((is_short ? 0.1 : prices_.put_far) + (has_part() ? 0.7 : 0) + (results > kHuge ? 0.3 : 0));
  }

  /// Whether a panel of a group is computed without another one.
  double lone_panels() const { return lanes_ >= 16 ? std::fmod(panels_of(filters_), 2) : 0; }

  /// The panels of a group's filters, weighted by time: with AVX-512 two panels take less than twice as long as one,
  /// with AVX2 half a panel less than one.
  double direct_panels() const {
    const double panels = panels_of(filters_);
    if (lanes_ >= 16) return panels + 0.28 * lone_panels();
    return panels - (std::fmod(filters_ - 1, 16) < 8 ? 0.31 : 0);
  }

  /// The time to unfold one group of an image. 16 neighbouring outputs of one row are moved at once, if windows move by
  /// one element and lie inside the image; others one by one.
  double windows_as_panels() const {
    const double panels = panels_of(outputs_), width = outputs_ / rows_;
    const bool is_even = std::fmod(width, 16) == 0;
    const double runs = is_even ? panels : panels + rows_;
    const double whole = is_strided_ ? 0 : is_even ? panels : width >= 16 ? std::max(0., panels - rows_) : 0;
    const double taps = static_cast<double>(geometry_.window.back());
    const double outside = std::min(taps, 2 * static_cast<double>(geometry_.before.back().high()));
    const double an_output = is_strided_ ? 0.58 : 0.44;
    return depth_ / taps * (4.3 * runs + 6 * rows_ * outside) +
           depth_ * (prices_.copied * whole + an_output * std::max(0., outputs_ - 16 * whole));
  }

  /// The tiles of one group whose filters are rows, 16 outputs of each at once. Results of many filters that the second
  /// cache does not hold lie pages apart.
  double put_results() const {
    constexpr double kManyFilters = 128;
    const double panels = panels_of(outputs_), results = filters_ * outputs_;
    const bool is_apart = filters_ >= kManyFilters && results > kLarge;
    const double a_sum =
        (std::fmod(outputs_, 16) > 0 ? prices_.put_apart : 0) + (is_apart ? 0.2 : 0) + (results > kHuge ? 0.8 : 0);
    return panels * (prices_.filter_tile * std::ceil(filters_ / prices_.tile_filters) + 16 * a_sum * filters_);
  }

  ProductPrices prices_;
  double lanes_;
  double images_, groups_, filters_, depth_;
  double runs_;  // of a window's elements that lie side by side, channels innermost: rows, or in groups single taps
  double inputs_, outputs_, rows_;  // of a group of an image: elements, elements of a filter's result, their rows
  bool is_strided_;
  const WindowGeometry& geometry_;
};

}  // namespace

std::optional<double> convolution_seconds(const Strategy& strategy, const KernelBody& body, const Target& target) {
  const ValueId root = target.has_grid() ? ValueId{} : contraction_of(body.body);
  if (!root || body.body.producer_op(root).kind != OpKind::Conv || body.body.type(root).dtype != DType::F32) return {};
  const std::optional<WindowGeometry> geometry = window_geometry(body, root);
  const std::optional<double> nanoseconds =
      geometry ? std::visit(Price(*geometry, target), strategy) : std::optional<double>();
  return nanoseconds ? std::optional(*nanoseconds * 1e-9) : std::nullopt;
}

}  // namespace weftc
