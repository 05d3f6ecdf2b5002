// A timeline as one HTML file that needs nothing else: lanes in SVG, tables, the theme of the reader's system.
#pragma once
#include <string>
#include <vector>

#include "cli/order_page.h"
#include "passes/cost/timeline.h"

namespace weftc {

/// The page; orders of a pipeline stand in front of its streams. Steps too small to be seen are drawn as one box, so
/// that it stays small whatever runs.
std::string timeline_page(const Timeline& timeline, const std::vector<OrderChart>& orders = {});

}  // namespace weftc
