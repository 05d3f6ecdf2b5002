// JSON text as a tree of values with positions, for files that people write.
#pragma once
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ir/base/diag.h"

namespace weftc {

struct JsonNode {
  struct Member;
  enum class Kind { Null, Boolean, Integer, Number, String, List, Object };
  Kind kind = Kind::Null;
  size_t at = 0;        // where it begins in the text
  int64_t integer = 0;  // Integer: if it fits into 64 bits with a sign
  std::string text;     // String
  std::vector<JsonNode> items;
  std::vector<Member> members;

  bool is(Kind k) const { return kind == k; }
  /// A member of an object; null without one.
  const JsonNode* find(const std::string& name) const;
};
struct JsonNode::Member {
  std::string name;
  JsonNode value;
};

/// Parses the whole text, nested at most 32 deep, without duplicate keys. Returns nullopt after reporting (json-text).
std::optional<JsonNode> read_json_tree(const std::string& file, std::string_view text, Diags& diags);

}  // namespace weftc
