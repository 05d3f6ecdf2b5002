// The rules of strategies: whether a kernel may be computed in a given way. One function a strategy, in a table for
// each family. The planning step choose-kernels asks them, and fusion for a kernel that it considers.
#pragma once
#include <optional>
#include <span>
#include <string>

#include "ir/constants.h"
#include "ir/kernel/kernel_body.h"
#include "ir/op_def.h"
#include "ir/strategy.h"
#include "ir/target.h"

namespace weftc {

/// All that a rule may look at.
struct StrategyContext {
  const KernelBody& body;
  const Constants& constants;
  const Target& target;
  KernelUse use = KernelUse::Launched;
  std::vector<int64_t> tile = {};  // rows and columns that the schedule asks for; empty: the rule chooses them
  int64_t panels = 0;              // that it asks for; 0: the same
};

/// A strategy, which is legal; or why not; or neither, where the strategy is for other bodies. A strategy with a reason
/// is legal too, but not chosen unless the schedule asks for it.
struct Verdict {
  std::optional<Strategy> strategy;
  std::string why;
};
inline Verdict refused(std::string why) { return {{}, std::move(why)}; }

/// A rule with the strategy that it may give.
struct StrategyRule {
  const char* name;  // of the strategy
  Verdict (*ask)(const StrategyContext&);
  const char* is_for;  // "products on the host"
};
/// Each family has a table at the end of its rules, best first. Families are asked in the order of choose_strategy.cpp.
std::span<const StrategyRule> exchange_rules();     // loop_rules.cpp
std::span<const StrategyRule> product_rules();      // product_rules.cpp
std::span<const StrategyRule> convolution_rules();  // convolution_rules.cpp
std::span<const StrategyRule> loop_rules();         // loop_rules.cpp

/// A strategy with the seconds that are predicted for it where its image lies as it wants.
struct PricedStrategy {
  Strategy strategy;
  double seconds;
};
/// The cheapest of the strategies of a host convolution that have prices (convolution_price.h) and read images
/// with channels innermost, and the cheapest that reads planes.
struct ConvolutionForms {
  std::optional<PricedStrategy> innermost, planes;
};
/// A kernel's strategy, and for a convolution whose strategy prices chose also the forms that it was chosen from.
struct StrategyChoice {
  Strategy strategy;
  ConvolutionForms forms = {};
};
/// The cheaper form; the given strategy, where it has no price.
StrategyChoice cheapest_convolution(const StrategyContext& context, Strategy strategy);

Verdict library_product(const StrategyContext& context);
/// Legal for every body but a scatter, a TopK and a selection.
Verdict plain_loops(const StrategyContext& context);

/// Steps of k, or channels, that kernels multiply at once: four of bytes, two where both operands are bfloat16.
int64_t steps_at_once(const Graph& body, const Op& contraction);
/// Whether sums may be stored directly from registers: no op of the body calls a function, which would need the
/// registers of other sums.
bool puts_out_of_registers(const Graph& body);

/// The first strategy of the tables that is legal, or one with a lower price; else plain loops, with the reasons
/// against the others.
StrategyChoice choose_strategy(const StrategyContext& context);
/// The strategy of that name, whether or not it would be chosen; else why it is not legal.
Verdict find_strategy(const StrategyContext& context, const std::string& name);
/// Every strategy that is legal but plain loops, with every tile and some numbers of panels, in the order of the
/// tables.
std::vector<Strategy> legal_strategies(const StrategyContext& context);
/// Gives the kernel the strategy, and the weights that it reads the packing that the strategy wants.
void set_strategy(Kernel& kernel, Strategy strategy);

/// The tile that the schedule asks for, or why it is refused. Without a request, the largest tile that rows fill by
/// more than half. There must be at least one tile for each multiprocessor of the device, or for each resident block of
/// a loop over chunks; else it is the smallest tile. No tile is larger than the target's shared memory.
std::optional<Tile> choose_tile(const StrategyContext& context, int64_t batch, int64_t rows, int64_t columns,
                                DType dtype, std::string& why);
/// Outputs of minimal filtering at a time, in each direction.
inline constexpr int64_t kWinogradTiles[] = {4, 2};
/// Rows and columns of the tiles of all rules; each rule refuses those that it does not have.
std::vector<std::vector<int64_t>> tile_extents();

/// Whether some op of the body is of one of the kinds, or of one of the categories.
bool has_op(const Graph& body, std::initializer_list<OpKind> kinds);
bool has_op(const Graph& body, std::initializer_list<Category> categories);

}  // namespace weftc
