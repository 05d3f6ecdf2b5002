// "did you mean" for selectors, which are patterns over names with several components.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "ir/schedule.h"

namespace weftc {

/// ", did you mean 'h.{l}.attn.c_attn.weight'?": what the selector may have meant among the names, as a pattern with
/// its variables: the nearest by spelling that ends alike, else the shortest name that has all its components, of which
/// `weight_of(NODE)` is made where a weight was looked for and `has_weight` says that the name is a node with one, else
/// the nearest. Where nothing is like it, what lists the names.
std::string suggest_name(const Selector& selector, const std::vector<std::string>& names,
                         const std::function<bool(const std::string& name)>& has_weight);

}  // namespace weftc
