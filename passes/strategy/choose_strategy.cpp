// The table of strategies, best first. A kernel gets the first one that is legal for it.
#include "ir/op_def.h"
#include "passes/strategy/strategy_rules.h"

namespace weftc {

namespace {

struct Rule {
  const char* name;  // as strategy_name has it
  Verdict (*ask)(const StrategyContext&);
};

constexpr Rule kRules[] = {
    {"transposition", transposition},
    {"peer-exchange", peer_exchange},
    {"scatter", scatter},
    {"library-product", library_product},
    {"tiled-product", tiled_product},
    {"tiled-convolution", tiled_convolution},
    {"packed-product", packed_product},
    {"strided-product", strided_product},
    {"direct-convolution", direct_convolution},
    {"plane-convolution", plane_convolution},
    {"point-convolution", point_convolution},
    {"unfolded-convolution", unfolded_convolution},
    {"window-reduction", window_reduction},
    {"scan", scan},
    {"rows", rows},
    {"elementwise", elementwise},
};

}  // namespace

Strategy choose_strategy(const StrategyContext& context) {
  std::vector<std::string> reasons;
  for (const Rule& rule : kRules) {
    Verdict verdict = rule.ask(context);
    if (verdict.strategy) return std::move(*verdict.strategy);
    if (!verdict.why.empty()) reasons.push_back(format("no {}: {}", rule.name, verdict.why));
  }
  return PlainLoops{join(reasons, "; ")};
}

/// The panels of a weight (k, n), or (n, k) where the packing transposes.
static Storage panels_of(const PackedProduct& packed, int ndim) {
  const int k_dim = ndim - (packed.transposed ? 1 : 2), n_dim = ndim - (packed.transposed ? 2 : 1);
  return Storage::panels(ndim, k_dim, n_dim, packed.width);
}

/// Filters [n, c, taps...] in panels of 16 of them, the channels of each tap side by side.
static Storage filter_panels(int ndim) {
  Storage storage;
  storage.parts.push_back({0, 16});
  for (int d = 2; d < ndim; ++d) storage.parts.push_back({d, 1});
  storage.parts.push_back({1, 1});
  storage.parts.push_back({0, 1});
  return storage;
}

void set_strategy(Kernel& kernel, Strategy strategy) {
  kernel.strategy = std::move(strategy);
  if (const auto* packed = std::get_if<PackedProduct>(&kernel.strategy))
    kernel.parameters[packed->weight].storage = panels_of(*packed, kernel.parameters[packed->weight].type.ndim());
  if (const auto* direct = std::get_if<DirectConvolution>(&kernel.strategy)) {
    Parameter& filters = kernel.parameters[direct->filters];
    filters.storage = filter_panels(filters.type.ndim());
  }
}

}  // namespace weftc
