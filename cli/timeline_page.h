// A timeline as one self-contained HTML file: lanes in SVG, tables, the theme of the reader's system.
#pragma once
#include <string>
#include <vector>

#include "cli/order_page.h"
#include "passes/cost/timeline.h"

namespace weftc {

/// The page. Orders of a pipeline are above its streams. Steps too small to be seen are merged into one box, which
/// keeps the page small.
std::string timeline_page(const Timeline& timeline, const std::vector<OrderChart>& orders = {});

}  // namespace weftc
