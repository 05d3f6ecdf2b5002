// What the runtime reads from the manifest behind the executable: where in the schedule a step came from, and of which
// nodes and block it is.
#pragma once
#include <string>
#include <string_view>

namespace weft {

/// "s.yaml:9:5" for a step that the schedule shaped; empty if there is none, or no manifest.
std::string schedule_line(std::string_view manifest, std::string_view step);

/// In front of the name of a step that has ended, where its stream has begun no other.
constexpr std::string_view kAfter = "after ";

/// Both together are cut to so many bytes.
constexpr size_t kLongestStatus = 87;

/// In its place, where a stream has nothing left to do.
constexpr std::string_view kEnd = "end of the iteration";

/// Where a rank is, as World::status says it, with what the manifest knows of the step: "h [2] (Relu h; block
/// c_forward, micro-batch 2)". Steps of one name may stand in several blocks, which are all said.
std::string with_facts(std::string_view manifest, const std::string& status);

/// A string as a JSON literal, with its quotes.
std::string json_string(std::string_view text);

}  // namespace weft
