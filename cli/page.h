// Pages for a browser: self-contained HTML files.
#pragma once
#include <string>

#include "backend/render.h"
#include "ir/base/diag.h"

namespace weftc {

/// Text for an element or an attribute: printable, with HTML's special characters escaped.
std::string html_text(const std::string& text);
/// The page of a file of templates/, in the common style.
std::string render_page(std::string_view name, Params params);
/// Writes the page; false after reporting (page-unwritable).
bool write_page(const std::string& path, const std::string& page, Diags& diags);

}  // namespace weftc
