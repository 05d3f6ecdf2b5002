// Logs of trainings as one HTML file: a chart for each figure, with a curve for each run.
#pragma once
#include <string>
#include <vector>

#include "cli/training_log.h"

namespace weftc {

/// The page. Curves of many steps show means of neighbours with their range shaded, which keeps the page small.
std::string training_log_page(const std::vector<TrainingLog>& logs);
/// A number for people: four digits.
std::string figure_text(double value);

}  // namespace weftc
