// The shared part of event-based JSON readers: nlohmann-json's SAX parser over a text, its position, its errors. The
// library's header is heavy, so only the files that implement readers include this one.
#pragma once
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "ir/base/diag.h"

namespace weftc {

/// Calls the handler with the events of the text. `reached` is at the end of the last token or one after it. False if
/// the text is not JSON, or if the handler stopped.
bool read_json_events(std::string_view text, const char*& reached, nlohmann::json_sax<nlohmann::json>& handler);

/// The reason in nlohmann-json's text, "[json.exception.parse_error.101] parse error at line 1, column 2: reason; last
/// read: 'x'".
std::string json_reason(const std::string& text);

/// The position of an offset, with its line unless that is too long to show.
Loc json_place(const std::string& file, std::string_view text, size_t at);

}  // namespace weftc
