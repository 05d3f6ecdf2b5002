// Reads YAML text into a tree of nodes with positions. The only code that uses yaml-cpp.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "ir/base/diag.h"

namespace weftc {

struct YamlNode {
  enum class Kind { Null, Scalar, List, Map };
  Kind kind = Kind::Null;
  std::string text;     // Scalar
  bool quoted = false;  // Scalar: cannot be read as a number
  Loc loc;
  std::vector<YamlNode> items;            // List
  std::vector<struct YamlEntry> entries;  // Map, in the order written

  bool is(Kind k) const { return kind == k; }
};
struct YamlEntry {
  YamlNode key, value;
};
/// "a list", "a mapping": for messages.
const char* kind_name(YamlNode::Kind kind);

/// May precede the text of a file.
constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";

/// One document of UTF-8 text of at most 4 MiB, nested at most 32 deep, without anchors, aliases, tags, tabs in the
/// indentation, or repeated keys. Nothing after reporting.
std::optional<YamlNode> read_yaml(const std::string& file, const std::string& text, Diags& diags);

}  // namespace weftc
