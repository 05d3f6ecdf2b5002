// "did you mean" for selectors, which are patterns over names with several components.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "ir/schedule.h"

namespace weftc {

/// ", did you mean 'h.{l}.attn.c_attn.weight'?": a name that the selector may have meant, as a pattern with its
/// variables. It is the nearest by spelling that ends alike, else the shortest name that has all components of the
/// selector, else the nearest. If the selector looks for a weight and `has_weight` says that the name is a node with
/// one, the text says `weight_of(NODE)`. Where nothing is similar, it names the command that lists the names.
std::string suggest_name(const Selector& selector, const std::vector<std::string>& names,
                         const std::function<bool(const std::string& name)>& has_weight);

}  // namespace weftc
