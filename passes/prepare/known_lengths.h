// What is known of run-time lengths beside their names, before types are inferred under it.
#pragma once
#include <map>
#include <set>
#include <string>

#include "ir/module.h"
#include "ir/shape_values.h"

namespace weftc {

/// The smallest values of named lengths, where they are not 0; that of "" is for names that are not there.
using Least = std::map<std::string, int64_t>;

struct KnownLengths {
  ShapeValues limits;                   // from states, and from dimensions that ops take for one
  std::map<std::string, int64_t> pins;  // names that an op takes for a number
  Least least;  // what inputs have at least: from there on quotients in the model's shape arithmetic mean something
  /// Names of Ifs whose branches give other numbers of dimensions: of those, the ones of which the else branch is taken
  /// for what later nodes read.
  std::set<std::string> unlike_ifs = {}, kept_else = {};
};

/// Gives the open dimensions of the inputs the bounds that are known.
void bound_inputs(Module& module, const KnownLengths& known);

}  // namespace weftc
