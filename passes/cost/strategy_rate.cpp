// The part of the peak rate that each strategy reaches: measured on one host, and counted from instructions for
// devices. The figures tell good strategies from bad ones; they do not aim at predictions within some percent.
#include "passes/cost/strategy_rate.h"

#include <algorithm>

namespace weftc {

namespace {

/// On the host, measured on one Zen 4 core with x86-64-v3. Packed products, direct convolutions and products with
/// points reach 90 to 100 % of its 101 GFLOP/s. Measured were products of 128 x 768 by 768 x 768 and 256 x 256 by 256 x
/// 256, the convolutions of ResNet-50's stages, and a depthwise one of 144 channels. Each figure is the best of its
/// strategy.
struct HostRate {
  const Target& target;

  StrategyRate operator()(const StridedProduct&) const { return {0.9}; }                             // 84 to 94 GFLOP/s
  StrategyRate operator()(const UnfoldedConvolution&) const { return {0.85}; }                       // 63 to 85
  StrategyRate operator()(const WinogradConvolution& s) const { return {s.tile == 4 ? 2.4 : 1.6}; }  // on Zen 3
  // For floats of 16 and 64 bits; 32-bit floats have prices (passes/strategy/convolution_price.h).
  StrategyRate operator()(const ChannelConvolution&) const { return {0.5}; }
  StrategyRate operator()(const PlaneConvolution&) const { return {0.06}; }
  /// 0.5 to 3.9 GFLOP/s whatever the width of vectors: a sum waits for the one before.
  StrategyRate operator()(const PlainLoops&) const { return {1.0 / (4 * target.vector_floats)}; }
  template <class Other>
  StrategyRate operator()(const Other&) const {
    return {};
  }
};

/// On a device, from its instructions; not timed yet.
struct DeviceRate {
  DType dtype;

  StrategyRate operator()(const TiledProduct& s) const { return tiled(s.tile); }
  StrategyRate operator()(const TiledConvolution& s) const { return tiled(s.tile); }
  StrategyRate operator()(const PlaneConvolution&) const { return one_thread_an_output(); }
  StrategyRate operator()(const PlainLoops&) const { return one_thread_an_output(); }
  template <class Other>
  StrategyRate operator()(const Other&) const {
    return {};
  }

 private:
  /// Tensor cores: 16 of 591 instructions of a tile of 64 x 64 use them, which gives 103 of an H100's 989 TFLOP/s. For
  /// a tile of 128 x 128, 32 of 295 do, which gives 412. Otherwise a thread reads thread_m + thread_n numbers from
  /// shared memory, which gives 32 a clock, for thread_m * thread_n of 128 multiplications a clock.
  StrategyRate tiled(const Tile& tile) const {
    if (dtype_bytes(dtype) == 2) return {tile.m >= 128 ? 0.42 : 0.1};
    const double products = static_cast<double>(tile.thread_m * tile.thread_n);
    return {std::min(1.0, products / (4 * static_cast<double>(tile.thread_m + tile.thread_n)))};
  }
  /// Two loads a multiplication, no tensor cores: 4 of an H100's 67 TFLOP/s.
  static StrategyRate one_thread_an_output() { return {1.0 / 16, false}; }
};

}  // namespace

StrategyRate strategy_rate(const Strategy& strategy, const Target& target, DType dtype) {
  return target.has_grid() ? std::visit(DeviceRate{dtype}, strategy) : std::visit(HostRate{target}, strategy);
}

}  // namespace weftc
