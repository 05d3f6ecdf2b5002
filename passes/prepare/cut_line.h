// Cuts a line of ops into stages of about the same time, where little has to be sent.
#pragma once
#include <cstdint>
#include <vector>

namespace weftc {

/// What may stand in one stage: ops of one node, in the order of the graph.
struct LineItem {
  double time = 0;     // seconds
  int64_t behind = 0;  // bytes that are made up to here and read behind it
};

/// The stage of each item: `stages` stretches of at least one item, of which the longest takes no more than a
/// twentieth longer than it must. Of all such cuts, that which sends the fewest bytes. `stages` is at most the number
/// of items.
std::vector<int> cut_line(const std::vector<LineItem>& line, int stages);

/// The stretch of each item where short ones are joined, for who has too many to try all cuts: each takes between half
/// and all of one `parts`-th of the time, and little is sent behind it; but for an item that takes longer alone, and
/// what stands in front of that.
std::vector<int> join_short_items(const std::vector<LineItem>& line, int parts);

}  // namespace weftc
