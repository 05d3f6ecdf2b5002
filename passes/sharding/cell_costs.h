// What parts of a model take at one place, under layouts: for who chooses which of them share a place.
#pragma once
#include <cstdint>
#include <vector>

#include "ir/machine.h"
#include "ir/module.h"
#include "ir/schedule.h"
#include "ir/target.h"

namespace weftc {

/// By cell: its ops and their collectives one after the other, and the weights and states that a rank has for it.
struct CellCosts {
  std::vector<double> seconds;
  std::vector<int64_t> bytes;
};

/// Those of a module in front of apply-layouts under the schedule's mesh and entries; `cell_of` has its ops' cells, -1
/// for what is computed wherever it is read. Nothing where the entries are refused.
CellCosts cell_costs(Module& module, const Schedule& schedule, const Target& target, const Machine& machine,
                     const std::vector<int>& cell_of, size_t cells);

}  // namespace weftc
