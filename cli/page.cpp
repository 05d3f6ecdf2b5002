#include "cli/page.h"

#include "backend/template_text.h"
#include "cli/process.h"
#include "ir/base/text.h"

namespace weftc {

std::string html_text(const std::string& text) {
  std::string out;
  for (const std::string& line : split(text, '\n')) {
    if (!out.empty()) out += "&#10;";
    for (const char c : printable(line)) switch (c) {
        case '&':
          out += "&amp;";
          break;
        case '<':
          out += "&lt;";
          break;
        case '>':
          out += "&gt;";
          break;
        case '"':
          out += "&quot;";
          break;
        case '\'':
          out += "&#39;";
          break;
        default:
          out += c;
      }
  }
  return out;
}

std::string render_page(std::string_view name, Params params) {
  params.set("style", std::string(trim(template_text("page.css"))));
  return render_file(name, params);
}

bool write_page(const std::string& path, const std::string& page, Diags& diags) {
  const std::string error = write_file(path, page);
  if (!error.empty()) diags.error("page-unwritable", Loc::in_file(path), "the page cannot be written: {}", error);
  return error.empty();
}

}  // namespace weftc
