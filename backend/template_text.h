// The files of templates/ as text, embedded when the compiler is built (templates/embed.cmake).
#pragma once
#include <string_view>

namespace weftc {
/// The text of templates/NAME; empty for an unknown template.
std::string_view template_text(std::string_view name);
}  // namespace weftc
