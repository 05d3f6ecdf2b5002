// A plan and its alternatives, as a page for a browser.
#pragma once
#include <string>

#include "cli/plan/plan_report.h"

namespace weftc {

std::string plan_page(const PlanReport& report);

}  // namespace weftc
