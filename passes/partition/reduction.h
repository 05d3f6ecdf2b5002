// Makes a problem smaller without losing every best solution:
// - arc consistency: a choice that is compatible with no choice of a neighbour is removed (Mackworth, AC-3, 1977)
// - a node is contracted into another one whose choice decides its own
// - an edge whose costs are a sum of costs of its two ends is dropped
// - a choice that another is never worse than, whatever the neighbours choose, is removed (Goldstein's criterion for
//   dead ends, Biophysical Journal 66, 1994), where it takes no more memory at any time
// - a choice that takes more memory than the others leave is removed
#pragma once
#include "passes/partition/reduced_problem.h"

namespace weftc {

/// Applies the rules until no rule finds anything.
void reduce(ReducedProblem& problem);

}  // namespace weftc
