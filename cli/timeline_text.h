// A timeline for people, and as JSON: the steps of every stream over time, the longest steps, the hidden communication.
#pragma once
#include <string>
#include <utility>
#include <vector>

#include "passes/cost/timeline.h"

namespace weftc {

/// "12.3 us".
std::string time_text(double seconds);
/// "1.3 million", "25 G": a rate or a count with its prefix.
std::string metric_text(double number);

/// Whether anything takes time: fractions of less than a picosecond are meaningless.
bool has_time(const Timeline& timeline);

/// At most `most` characters of the text, with "..." at the end if it was cut.
std::string shortened(const std::string& text, size_t most);

/// "2.36 MOP, 1.1 KiB, 256 bytes by link".
std::string work_text(const Work& work);

/// A step over one iteration, on the rank on which it takes longest.
struct StepTotal {
  int step = 0, runs = 0;
  double seconds = 0;
};
/// Longest first.
std::vector<StepTotal> step_totals(const Timeline& timeline);

/// Ranks that run the same steps on the same streams, in the same order.
struct RankClass {
  std::vector<int> ranks;
  std::vector<int> lanes;  // of the first of them; only lanes on which something runs
};
std::vector<RankClass> rank_classes(const Timeline& timeline);
/// "rank 3", "ranks 0 to 3", "ranks 0, 2, 4".
std::string ranks_text(const std::vector<int>& ranks);

/// One sentence: the total, computation, communication, and the hidden part.
std::string summary_text(const Timeline& timeline);
/// For a terminal of 100 columns.
std::string timeline_text(const Timeline& timeline);
/// The figures of summary_text and of every step, and further fields that are JSON text already.
std::string timeline_json(const Timeline& timeline, const std::vector<std::pair<std::string, std::string>>& more = {});

}  // namespace weftc
