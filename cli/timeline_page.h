// A timeline as one HTML file that needs nothing else: lanes in SVG, tables, the theme of the reader's system.
#pragma once
#include <string>

#include "passes/cost/timeline.h"

namespace weftc {

/// The page. Steps too small to be seen are drawn as one box, so that it stays small whatever runs.
std::string timeline_page(const Timeline& timeline);

}  // namespace weftc
