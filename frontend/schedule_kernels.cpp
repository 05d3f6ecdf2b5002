// The `kernels:` section of a schedule: `NAME: {strategy: tiled-product, tile: [64, 64]}`, and other choices of a
// strategy: `panels: 8`, `threads: 1`.
#include "frontend/schedule_sections.h"
#include "ir/base/contains.h"
#include "ir/strategy.h"

namespace weftc {

static void read_tile(YamlValues& values, const YamlNode& node, const std::string& what, KernelPin& pin) {
  constexpr int64_t kMost = 1024;
  pin.tile_loc = node.loc;
  if (!values.is_list(node, "the tile of " + what)) return;
  const std::optional<std::vector<int64_t>> tile = values.integers(node, "the tile of " + what, 1, kMost);
  if (tile && tile->size() == 2)
    pin.tile = *tile;
  else if (tile)
    values.diags().error("kernel-tile-extents", node.loc, "the tile of {} has two extents, rows and columns, not {}",
                         what, tile->size());
}

static KernelPin read_pin(YamlValues& values, const std::string& name, const YamlNode& key, const YamlNode& value) {
  KernelPin pin{name, "", {}, key.loc, {}, {}};
  const std::string what = "kernel '" + printable(name) + "'";
  const auto strategy = [&](const YamlNode& node) {
    pin.strategy_loc = node.loc;
    const std::vector<std::string> names = strategy_names();
    pin.strategy = values.word(node, "the strategy of " + what).value_or("");
    if (pin.strategy.empty() || contains(names, pin.strategy)) return;
    const std::string meant = did_you_mean(pin.strategy, names);
    values.diags().error("unknown-strategy", node.loc, "'{}' is no strategy{}", printable(pin.strategy),
                         meant.empty() ? "; there are: " + join(names, ", ") : meant);
    pin.strategy.clear();
  };
  const auto tile = [&](const YamlNode& node) { read_tile(values, node, what, pin); };
  Loc panels_loc;
  const auto panels = [&](const YamlNode& node) {
    panels_loc = node.loc;
    pin.panels = values.integer(node, "'panels' of " + what, 1, int64_t{1} << 20).value_or(0);
  };
  const auto threads = [&](const YamlNode& node) {
    pin.one_thread = values.integer(node, "'threads' of " + what, 1, 1).has_value();
  };
  values.keys(value, what, {{"strategy", strategy, true}, {"tile", tile}, {"panels", panels}, {"threads", threads}});
  if (!pin.tile.empty() && !pin.strategy.empty() && !has_tile(pin.strategy))
    values.diags().error("kernel-no-tile", pin.tile_loc, "{} has no tile to choose", pin.strategy);
  if (pin.panels != 0 && !pin.strategy.empty() && !has_panels(pin.strategy))
    values.diags().error("kernel-no-panels", panels_loc, "{} has no panels to choose", pin.strategy);
  return pin;
}

std::vector<KernelPin> read_kernels(YamlValues& values, const YamlNode& node) {
  std::vector<KernelPin> pins;
  values.names(node, "kernels", [&](const std::string& name, const YamlNode& key, const YamlNode& value) {
    pins.push_back(read_pin(values, name, key, value));
  });
  return pins;
}

}  // namespace weftc
