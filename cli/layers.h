// Models repeat their layers, and so do lists about them: h.0.mlp.c_fc, h.1.mlp.c_fc, ... are one row, h.{l}.mlp.c_fc.
#pragma once
#include <cstddef>
#include <string>
#include <vector>

#include "cli/table.h"

namespace weftc {

/// Rows that differ in nothing but one number that is a part of their names, such as 3 in "h.3.mlp.c_fc", become one,
/// where the first of them stood: "{l}" in place of the number, and which numbers there are in one more cell ("l = 0 to
/// 11", empty in the other rows). `name_cells`: where names stand in a row.
TableRows fold_layers(const TableRows& rows, const std::vector<size_t>& name_cells);

/// For each name its end, as short as tells it from the others but for the number of its layer, and no less than two
/// parts: "mlp.c_fc" of "h.3.mlp.c_fc".
std::vector<std::string> name_ends(const std::vector<std::string>& names);

}  // namespace weftc
