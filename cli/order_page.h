// An order of a pipeline as a section of a page: lanes of ranks in SVG with their memory below, in one style for
// predicted and measured orders.
#pragma once
#include <string>

#include "passes/pipelining/order_picture.h"

namespace weftc {

struct OrderChart {
  std::string title;   // "Order of the pipeline, predicted"
  std::string source;  // a sentence; as the user wrote it, not printable yet
  OrderPicture picture;
};

/// HTML; `number` distinguishes the sections of a page.
std::string order_section(const OrderChart& chart, int number);
/// The style of all sections, for the page's head.
std::string order_style();

}  // namespace weftc
