// Pages for a browser: files of HTML that need nothing else.
#pragma once
#include <string>

#include "ir/base/diag.h"

namespace weftc {

/// Text for an element or an attribute: printable, and nothing that HTML reads.
std::string html_text(const std::string& text);
/// Writes the page; false after reporting (page-unwritable).
bool write_page(const std::string& path, const std::string& page, Diags& diags);

}  // namespace weftc
