// Facts about run-time lengths besides their names, known before types are inferred with them.
#pragma once
#include <map>
#include <set>
#include <string>

#include "ir/module.h"
#include "ir/shape_values.h"

namespace weftc {

/// The smallest values of named lengths, where they are not 0; "" stands for names that are not listed.
using Least = std::map<std::string, int64_t>;

struct KnownLengths {
  ShapeValues limits;                   // from states, and from dimensions that ops take for one
  std::map<std::string, int64_t> pins;  // names that an op takes for a number
  // The minimum length of inputs: from it on quotients in the model's shape arithmetic are meaningful.
  Least least;
  /// Names of Ifs whose branches give different numbers of dimensions. `kept_else`: those whose else branch types the
  /// later nodes.
  std::set<std::string> unlike_ifs = {}, kept_else = {};
};

/// Gives the open dimensions of the inputs the bounds that are known.
void bound_inputs(Module& module, const KnownLengths& known);

}  // namespace weftc
