// Cuts a line of ops into stages of about the same time, where little has to be sent.
#pragma once
#include <cstdint>
#include <vector>

namespace weftc {

/// The unit of a cut: ops of one node, in the order of the graph.
struct LineItem {
  double time = 0;    // seconds
  int64_t after = 0;  // bytes of the values that are made up to here and read later
};

/// The stage of each item: `stages` stretches of at least one item. The longest stretch takes at most a twentieth
/// longer than necessary. Among all such cuts, this one sends the fewest bytes. `stages` is at most the number of
/// items.
std::vector<int> cut_line(const std::vector<LineItem>& line, int stages);

/// Groups consecutive items into stretches, so that few cuts are left to try. Each stretch takes between half and all
/// of one `parts`-th of the time, and few bytes cross its end. Exceptions are an item that takes longer alone, and the
/// stretch before it.
std::vector<int> join_short_items(const std::vector<LineItem>& line, int parts);

}  // namespace weftc
