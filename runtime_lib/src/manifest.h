// What the runtime reads from the manifest behind the executable: where in the schedule a step came from.
#pragma once
#include <string>
#include <string_view>

namespace weft {

/// "s.yaml:9:5" for a step that the schedule shaped; empty if there is none, or no manifest.
std::string schedule_line(std::string_view manifest, std::string_view step);

/// A string as a JSON literal, with its quotes.
std::string json_string(std::string_view text);

}  // namespace weft
