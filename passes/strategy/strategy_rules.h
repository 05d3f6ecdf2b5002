// The rules of strategies: may a kernel be computed in this way? One function a strategy, asked by the planning step
// choose-kernels in the order of the table in choose_strategy.cpp, and by fusion for a kernel that might be.
#pragma once
#include <optional>
#include <string>

#include "ir/constants.h"
#include "ir/kernel/kernel_body.h"
#include "ir/strategy.h"
#include "ir/target.h"

namespace weftc {

/// All that a rule may look at.
struct StrategyContext {
  const KernelBody& body;
  const Constants& constants;
  const Target& target;
  KernelUse use = KernelUse::Launched;
};

/// A strategy; or why not; or neither, where the strategy is for other bodies.
struct Verdict {
  std::optional<Strategy> strategy;
  std::string why;
};
inline Verdict refused(std::string why) { return {{}, std::move(why)}; }

Verdict transposition(const StrategyContext& context);
Verdict tiled_convolution(const StrategyContext& context);
Verdict library_product(const StrategyContext& context);
Verdict tiled_product(const StrategyContext& context);
Verdict packed_product(const StrategyContext& context);
Verdict strided_product(const StrategyContext& context);
Verdict direct_convolution(const StrategyContext& context);
Verdict plane_convolution(const StrategyContext& context);
Verdict point_convolution(const StrategyContext& context);
Verdict unfolded_convolution(const StrategyContext& context);
Verdict window_reduction(const StrategyContext& context);
Verdict scan(const StrategyContext& context);
Verdict scatter(const StrategyContext& context);
Verdict peer_exchange(const StrategyContext& context);
Verdict rows(const StrategyContext& context);
Verdict elementwise(const StrategyContext& context);

/// The first strategy of the table that is legal; else plain loops, with what stood against the others.
Strategy choose_strategy(const StrategyContext& context);
/// Gives the kernel the strategy, and the weights that it reads the packing that the strategy wants.
void set_strategy(Kernel& kernel, Strategy strategy);

/// The largest tile that rows fill by more than half, and of which there is one for each multiprocessor of the device,
/// or each block of a loop over chunks; else the smallest.
Tile choose_tile(const StrategyContext& context, int64_t batch, int64_t rows, int64_t columns, DType dtype);

}  // namespace weftc
