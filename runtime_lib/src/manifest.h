// The runtime's use of the manifest: for each step its line in the schedule, its nodes and its block.
#pragma once
#include <string>
#include <string_view>

namespace weft {

/// "s.yaml:9:5" for a step that the schedule shaped; empty for other steps, or without a manifest.
std::string schedule_line(std::string_view manifest, std::string_view step);

/// Prefix of the name of a step that has ended, while its stream has not begun another.
constexpr std::string_view kAfter = "after ";

/// The most bytes of prefix and name together.
constexpr size_t kLongestStatus = 87;

/// Replaces the name when a stream has nothing left to do.
constexpr std::string_view kEnd = "end of the iteration";

/// The position of a rank, as World::status returns it, with the manifest's facts about the step: "h [2] (Relu h; block
/// c_forward, micro-batch 2)". Steps of one name may be in several blocks, which are all listed.
std::string with_facts(std::string_view manifest, const std::string& status);

/// A string as a JSON literal, with its quotes.
std::string json_string(std::string_view text);

}  // namespace weft
