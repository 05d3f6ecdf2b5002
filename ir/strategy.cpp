// The text of each strategy, as `explain`, the manifest and tests show it.
#include "ir/strategy.h"

#include "ir/base/text.h"

namespace weftc {

namespace {

std::string tile_text(const Tile& tile) { return format(" {}x{}", tile.m, tile.n); }

std::string team_text(RowTeam team) {
  return team == RowTeam::Thread ? "" : team == RowTeam::Warp ? " by warp" : " by block";
}

/// Names the operands that a convolution brings into another order first.
template <class Convolution>
std::string copies_text(const Convolution& s) {
  return std::string(s.copies_filters ? ", filters transposed first" : "") +
         (s.copies_image ? ", image transposed first" : "");
}

struct ParameterText {
  std::string operator()(const LibraryProduct& s) const {
    std::vector<std::string> after;
    if (s.bias) after.emplace_back("bias");
    if (s.activation != Activation::None) after.emplace_back(s.activation == Activation::Relu ? "relu" : "gelu");
    return after.empty() ? "" : " + " + join(after, " + ");
  }
  std::string operator()(const PackedProduct& s) const {
    return format(" panels {}", s.width) + (s.together == 2 ? " of pairs" : "");
  }
  std::string operator()(const StridedProduct& s) const {
    return std::string(s.is_short ? ", short" : "") + (s.kept_bytes ? ", keeps panels" : "");
  }
  std::string operator()(const BlockProduct& s) const { return format(" of {} bits", s.bits); }
  std::string operator()(const DirectConvolution& s) const {
    const char* const how = s.is_short        ? " as a product, short"
                            : s.is_product    ? " as a product"
                            : s.together == 2 ? " of pairs"
                                              : "";
    return how + copies_text(s);
  }
  std::string operator()(const WinogradConvolution& s) const {
    return format(" F({}x{}, 3x3)", s.tile, s.tile) + (s.copies_image ? ", image transposed first" : "");
  }
  std::string operator()(const ChannelConvolution& s) const { return copies_text(s); }
  std::string operator()(const WindowReduction& s) const { return s.channels_last ? " channels last" : ""; }
  std::string operator()(const UnfoldedConvolution& s) const { return format(" {} panels", s.panels); }
  std::string operator()(const TiledProduct& s) const { return tile_text(s.tile); }
  std::string operator()(const TiledConvolution& s) const { return tile_text(s.tile); }
  std::string operator()(const Scan& s) const { return s.by_block ? " by block" : ""; }
  std::string operator()(const Scatter& s) const { return s.in_place ? " in place" : ""; }
  std::string operator()(const Recurrence& s) const { return s.lanes > 1 ? format(" of {} lanes", s.lanes) : ""; }
  std::string operator()(const Rows& s) const { return team_text(s.team); }
  std::string operator()(const TopK& s) const { return team_text(s.team); }
  template <class Other>
  std::string operator()(const Other&) const {
    return "";
  }
};

}  // namespace

std::vector<PackedWeight> packed_weights_of(const Strategy& strategy) {
  return std::visit(
      [](const auto& s) -> std::vector<PackedWeight> {
        if constexpr (requires { s.copies_filters; })
          if (s.copies_filters) return {};
        if constexpr (requires { s.terms; })
          return {{s.weight, s.packing}, {s.terms, s.packing}};
        else if constexpr (requires { s.packing; })
          return {{s.weight, s.packing}};
        else
          return {};
      },
      strategy);
}

int64_t kept_bytes_of(const Strategy& strategy) {
  const auto* product = std::get_if<StridedProduct>(&strategy);
  return product ? product->kept_bytes : 0;
}

bool has_pairs(const Strategy& strategy) {
  return std::visit(
      [](const auto& s) {
        if constexpr (requires { s.together; })
          return s.together == 2;
        else
          return false;
      },
      strategy);
}

std::optional<bool> copies_image(const Strategy& strategy) {
  return std::visit(
      [](const auto& s) -> std::optional<bool> {
        if constexpr (requires { s.copies_image; })
          return s.copies_image;
        else
          return std::nullopt;
      },
      strategy);
}

void set_copies_image(Strategy& strategy, bool copies) {
  std::visit(
      [&](auto& s) {
        if constexpr (requires { s.copies_image; }) s.copies_image = copies;
      },
      strategy);
}

const char* strategy_name(const Strategy& strategy) {
  return std::visit([](const auto& s) { return s.kName; }, strategy);
}

std::string strategy_text(const Strategy& strategy) {
  return strategy_name(strategy) + std::visit(ParameterText{}, strategy);
}

std::string reason_text(const Strategy& strategy) {
  const auto* plain = std::get_if<PlainLoops>(&strategy);
  return plain ? plain->why : "";
}

bool has_tile(const std::string& name) {
  return name == TiledProduct::kName || name == TiledConvolution::kName || name == WinogradConvolution::kName;
}

bool has_panels(const std::string& name) { return name == UnfoldedConvolution::kName; }

template <class... S>
static std::vector<std::string> names_of(const std::variant<S...>*) {
  return {S::kName...};
}

std::vector<std::string> strategy_names() { return names_of(static_cast<const Strategy*>(nullptr)); }

}  // namespace weftc
