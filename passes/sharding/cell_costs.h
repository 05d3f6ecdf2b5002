// The costs of parts of a model at one place, under given layouts, to choose which parts share a place.
#pragma once
#include <cstdint>
#include <vector>

#include "ir/machine.h"
#include "ir/module.h"
#include "ir/schedule.h"
#include "ir/target.h"

namespace weftc {

/// By cell: the time of its ops and their collectives in sequence, and the bytes of the weights and states that a rank
/// has for it.
struct CellCosts {
  std::vector<double> seconds;
  std::vector<int64_t> bytes;
};

/// The costs of a module before apply-layouts under the schedule's mesh and entries. `cell_of` has its ops' cells, -1
/// for ops that are computed wherever they are read. Nothing where the entries are refused.
CellCosts cell_costs(Module& module, const Schedule& schedule, const Target& target, const Machine& machine,
                     const std::vector<int>& cell_of, size_t cells);

}  // namespace weftc
