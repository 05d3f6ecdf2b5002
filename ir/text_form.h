// One text form for graphs: what tests read and write, and what --print-ir-after shows.
#pragma once
#include <optional>
#include <string>

#include "ir/module.h"

namespace weft {

struct PrintOptions {
  bool constants = true;  // values of constants up to 16 elements; larger ones as random(seed) cannot be shown
};
/// The whole module: places, constants, graph with regions, outputs, states. Deterministic.
std::string print_module(const Module& module, const PrintOptions& options = {});
/// Reads what print_module printed (large constants come back as zeros). Nothing after reporting.
std::optional<Module> parse_module(const std::string& name, const std::string& text, Diags& diags);

}  // namespace weft
