// Models repeat their layers, and so do lists about them: h.0.mlp.c_fc, h.1.mlp.c_fc, ... are one row, h.{l}.mlp.c_fc.
#pragma once
#include <cstddef>
#include <string>
#include <vector>

#include "cli/table.h"

namespace weftc {

/// Merges rows that differ only in one number that is a part of their names, such as 3 in "h.3.mlp.c_fc". The merged
/// row stands at the place of the first and has "{l}" instead of the number. One more cell lists the numbers: "l = 0 to
/// 11"; it is empty in the other rows. `name_cells`: the cells of a row that contain names.
TableRows fold_layers(const TableRows& rows, const std::vector<size_t>& name_cells);

/// For each name its shortest suffix that is unique except for layer numbers, and has at least two parts: "mlp.c_fc" of
/// "h.3.mlp.c_fc".
std::vector<std::string> name_ends(const std::vector<std::string>& names);

}  // namespace weftc
