// The table of strategies, best first. A kernel gets the first one that is legal for it, unless the schedule names
// another one.
#include <algorithm>

#include "ir/base/contains.h"
#include "passes/strategy/strategy_rules.h"

namespace weftc {

namespace {

struct Rule {
  const char* name;  // as strategy_name has it
  Verdict (*ask)(const StrategyContext&);
  const char* is_for;
};

constexpr Rule kRules[] = {
    {"transposition", transposition, "tensors that are only turned, on a device"},
    {"peer-exchange", peer_exchange, "kernels that exchange data with other ranks"},
    {"scatter", scatter, "scatters"},
    {"library-product", library_product, "products on a device"},
    {"tiled-product", tiled_product, "products on a device"},
    {"tiled-convolution", tiled_convolution, "convolutions on a device"},
    {"packed-product", packed_product, "products on the host"},
    {"strided-product", strided_product, "products on the host"},
    {"direct-convolution", direct_convolution, "convolutions on the host"},
    {"plane-convolution", plane_convolution, "convolutions with one channel for each filter"},
    {"point-convolution", point_convolution, "convolutions on the host with windows of one element"},
    {"unfolded-convolution", unfolded_convolution, "convolutions on the host"},
    {"window-reduction", window_reduction, "pools"},
    {"scan", scan, "running sums"},
    {"rows", rows, "reductions without a product or running sum"},
    {"elementwise", elementwise, "kernels without a sum"},
};

}  // namespace

Strategy choose_strategy(const StrategyContext& context) {
  std::vector<std::string> reasons;
  for (const Rule& rule : kRules) {
    Verdict verdict = rule.ask(context);
    if (verdict.strategy && verdict.why.empty()) return std::move(*verdict.strategy);
    if (!verdict.why.empty()) reasons.push_back(format("no {}: {}", rule.name, verdict.why));
  }
  return PlainLoops{join(reasons, "; ")};
}

Verdict find_strategy(const StrategyContext& context, const std::string& name) {
  const Rule* rule = std::find_if(std::begin(kRules), std::end(kRules), [&](const Rule& r) { return name == r.name; });
  if (name == strategy_name(PlainLoops{})) return plain_loops(context);
  if (rule == std::end(kRules)) return refused("it is for states, and chosen where they are updated in place");
  Verdict verdict = rule->ask(context);
  if (!verdict.strategy && verdict.why.empty()) return refused(format("it is for {}", rule->is_for));
  return verdict;
}

std::vector<Strategy> legal_strategies(const StrategyContext& context) {
  std::vector<Strategy> legal;
  for (const Rule& rule : kRules) {
    std::vector<std::vector<int64_t>> tiles = {{}};
    if (has_tile(rule.name)) tiles = tile_extents();
    for (const std::vector<int64_t>& tile : tiles) {
      Verdict verdict = rule.ask({context.body, context.constants, context.target, context.use, tile});
      if (verdict.strategy) legal.push_back(std::move(*verdict.strategy));
    }
  }
  return legal;
}

template <class Asks>
static bool any_op(const Graph& body, const Asks& asks) {
  for (OpId id = body.first(); id; id = body.next(id))
    if (asks(body.op(id))) return true;
  return false;
}

bool has_op(const Graph& body, std::initializer_list<OpKind> kinds) {
  return any_op(body, [&](const Op& op) { return contains(kinds, op.kind); });
}

bool has_op(const Graph& body, std::initializer_list<Category> categories) {
  return any_op(body, [&](const Op& op) { return contains(categories, category(op)); });
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
