// The template engine: text of templates/ with `$name` placeholders and `//@ for x in list`, `//@ if name`, `//@ end`
// lines. It has no arithmetic, filters or includes: all decisions are made where the parameters are filled in. Names in
// the template without a parameter, and parameters that no line uses, are bugs.
#pragma once
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace weftc {

/// Parameters of one template, or of one item of a list.
struct Params {
  std::map<std::string, std::string> texts;          // $name; in `if`: empty is false
  std::map<std::string, std::vector<Params>> lists;  // for x in name: items are $x.field

  Params& set(const std::string& name, std::string text);
  std::vector<Params>& list(const std::string& name) { return lists[name]; }
};

/// The text with its placeholders filled. A line that holds nothing but placeholders with empty text
/// disappears; text of several lines is indented like its placeholder.
std::string render(std::string_view text, const Params& params);
/// The same for a file of templates/, which is embedded in the compiler (template_text.h).
std::string render_file(std::string_view name, const Params& params);

}  // namespace weftc
