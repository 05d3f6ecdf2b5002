// Builds a tree from yaml-cpp's events, so that every node keeps its position. Refuses YAML features that a schedule
// does not need (anchors, tags, several documents).
#include "frontend/yaml_reader.h"

#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/parser.h>

#include <algorithm>
#include <set>
#include <sstream>

#include "ir/base/utf8.h"

namespace weftc {

namespace {

constexpr size_t kMostBytes = size_t{4} << 20;
/// yaml-cpp's scanner takes time quadratic in a line's length.
constexpr size_t kLongestLine = size_t{64} << 10;
constexpr size_t kDeepest = 32;

/// Thrown at the first refused construct; caught by read_yaml.
struct Refusal {};

/// Builds the tree from parser events. Open nodes are kept by value on a stack and attached when they end.
class TreeBuilder : public YAML::EventHandler {
 public:
  TreeBuilder(const std::string& file, const std::vector<std::string>& lines, Diags& diags)
      : file_(file), lines_(lines), diags_(diags) {}

  void OnDocumentStart(const YAML::Mark&) override {}
  void OnDocumentEnd() override {}
  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    leaf(mark, "", anchor, {}, YamlNode::Kind::Null);
  }
  void OnAlias(const YAML::Mark& mark, YAML::anchor_t) override {
    refuse("yaml-alias", mark, "aliases ('*name') are not read; write the value out");
  }
  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                const std::string& value) override {
    leaf(mark, tag, anchor, value, YamlNode::Kind::Scalar);
  }
  void OnSequenceStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                       YAML::EmitterStyle::value) override {
    begin(mark, tag, anchor, YamlNode::Kind::List);
  }
  void OnSequenceEnd() override { end(); }
  void OnMapStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                  YAML::EmitterStyle::value) override {
    begin(mark, tag, anchor, YamlNode::Kind::Map);
  }
  void OnMapEnd() override { end(); }

  YamlNode take() { return std::move(root_); }
  Loc loc(const YAML::Mark& mark, int length = 1) const;
  [[noreturn]] void refuse(std::string id, const YAML::Mark& mark, const char* message) {
    diags_.error(std::move(id), loc(mark), "{}", message);
    throw Refusal{};
  }

 private:
  struct Open {
    YamlNode node;
    bool has_key = false;  // Map: the value is missing for the last key
  };
  YamlNode made(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor, YamlNode::Kind kind);
  void leaf(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor, const std::string& value,
            YamlNode::Kind kind);
  void begin(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor, YamlNode::Kind kind);
  void end();
  void attach(YamlNode node);
  bool is_quoted(const Loc& loc) const;

  const std::string& file_;
  const std::vector<std::string>& lines_;
  Diags& diags_;
  std::vector<Open> open_;
  YamlNode root_;
};

Loc TreeBuilder::loc(const YAML::Mark& mark, int length) const {
  const int line = std::clamp(mark.line, 0, static_cast<int>(lines_.size()) - 1);
  return Loc::text(file_, line + 1, std::max(0, mark.column) + 1, lines_[line], length);
}

/// yaml-cpp reports quoted scalars by the tag "!" and plain ones by "?"; the user wrote all others.
YamlNode TreeBuilder::made(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor, YamlNode::Kind kind) {
  if (anchor != 0) refuse("yaml-anchor", mark, "anchors ('&name') are not read; write the value out");
  if (!tag.empty() && tag != "?" && tag != "!") refuse("yaml-tag", mark, "tags ('!name') are not read");
  YamlNode node;
  node.kind = kind;
  node.quoted = tag == "!";
  node.loc = loc(mark);
  return node;
}

void TreeBuilder::leaf(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor, const std::string& value,
                       YamlNode::Kind kind) {
  YamlNode node = made(mark, tag, anchor, kind);
  node.text = value;
  node.loc.length = static_cast<int>(std::clamp<size_t>(value.size() + (node.quoted ? 2 : 0), 1, 80));
  // yaml-cpp marks a missing value ("key:") after its line, so it gets the position of its key.
  if (kind == YamlNode::Kind::Null && !open_.empty() && open_.back().has_key)
    node.loc = open_.back().node.entries.back().key.loc;
  attach(std::move(node));
}

void TreeBuilder::begin(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor, YamlNode::Kind kind) {
  if (open_.size() >= kDeepest) refuse("yaml-depth", mark, "nested more than 32 deep");
  open_.push_back({made(mark, tag, anchor, kind), false});
}

void TreeBuilder::end() {
  YamlNode node = std::move(open_.back().node);
  open_.pop_back();
  attach(std::move(node));
}

void TreeBuilder::attach(YamlNode node) {
  if (open_.empty()) {
    root_ = std::move(node);
    return;
  }
  Open& parent = open_.back();
  if (parent.node.kind == YamlNode::Kind::List) {
    parent.node.items.push_back(std::move(node));
  } else if (parent.has_key) {
    parent.node.entries.back().value = std::move(node);
    parent.has_key = false;
  } else {
    parent.node.entries.push_back({std::move(node), {}});
    parent.has_key = true;
  }
}

/// One comparable text for a key, which may be a list (`[tp0, tp1]: 1`).
std::string key_text(const YamlNode& key) {
  if (key.kind == YamlNode::Kind::Scalar) return key.text;
  std::string text = "[";
  for (const YamlNode& item : key.items) text += quote(key_text(item)) + ",";
  for (const auto& [k, v] : key.entries) text += quote(key_text(k)) + ":" + quote(key_text(v)) + ",";
  return text + "]";
}

/// Reports duplicate keys of a mapping.
void check_keys(const YamlNode& node, Diags& diags) {
  std::set<std::string> seen;
  for (const auto& [key, value] : node.entries) {
    if (!seen.insert(key_text(key)).second) {
      const std::string text = key_text(key);
      auto report = diags.error("yaml-repeated-key", key.loc, "key '{}' is given twice", printable(text));
      for (const auto& [other, unused] : node.entries)
        if (key_text(other) == text) {
          report.note(other.loc, "first given here");
          break;
        }
    }
    check_keys(value, diags);
  }
  for (const YamlNode& item : node.items) check_keys(item, diags);
}

/// Reports the first line that is too long.
bool check_lengths(const std::string& file, const std::vector<std::string>& lines, Diags& diags) {
  for (size_t i = 0; i < lines.size(); ++i) {
    if (lines[i].size() <= kLongestLine) continue;
    diags.error("yaml-line", Loc::text(file, static_cast<int>(i) + 1, 1, printable(lines[i].substr(0, 80))),
                "the line has {} bytes; a line of YAML has at most 64 KiB here", lines[i].size());
    return false;
  }
  return true;
}

/// Reports bytes that a schedule cannot hold: broken UTF-8, control characters, tabs before the first word of a line.
bool check_bytes(const std::string& file, const std::string& text, const std::vector<std::string>& lines,
                 Diags& diags) {
  int line = 1, column = 1;
  bool indenting = true;
  for (size_t at = 0; at < text.size();) {
    const char c = text[at];
    const size_t length = code_point_width(text, at);
    const bool control = (static_cast<unsigned char>(c) < 0x20 && c != '\n' && c != '\t' && c != '\r') || c == 0x7f;
    const Loc loc = Loc::text(file, line, column, lines[line - 1]);
    if (length == 0 || control) {
      Loc bytes = loc;
      bytes.source = printable(bytes.source);
      bytes.column = static_cast<int>(printable(std::string_view(lines[line - 1]).substr(0, column - 1)).size()) + 1;
      diags.error("yaml-encoding", bytes, "byte {} is no UTF-8 text", static_cast<int>(static_cast<unsigned char>(c)));
      return false;
    }
    if (c == '\t' && indenting) {
      diags.error("yaml-tab", loc, "a tab in the indentation; YAML indents with spaces");
      return false;
    }
    indenting = c == '\n' || (indenting && c == ' ');
    at += length;
    column = c == '\n' ? 1 : column + static_cast<int>(length);
    line += c == '\n';
  }
  return true;
}

}  // namespace

const char* kind_name(YamlNode::Kind kind) {
  switch (kind) {
    case YamlNode::Kind::Null:
      return "nothing";
    case YamlNode::Kind::Scalar:
      return "a single value";
    case YamlNode::Kind::List:
      return "a list";
    case YamlNode::Kind::Map:
      return "a mapping";
  }
  return "";
}

std::optional<YamlNode> read_yaml(const std::string& file, const std::string& given, Diags& diags) {
  if (given.size() > kMostBytes) {
    diags.error("yaml-size", Loc::in_file(file), "the file has {} bytes; a schedule has at most 4 MiB", given.size());
    return {};
  }
  const std::string text = given.starts_with(kByteOrderMark) ? given.substr(kByteOrderMark.size()) : given;
  std::vector<std::string> lines = split(text, '\n');
  for (std::string& line : lines)
    if (line.ends_with('\r')) line.pop_back();
  if (!check_lengths(file, lines, diags) || !check_bytes(file, text, lines, diags)) return {};
  TreeBuilder builder(file, lines, diags);
  const int errors = diags.errors();
  try {
    std::istringstream stream(text);
    YAML::Parser parser(stream);
    if (!parser.HandleNextDocument(builder)) return YamlNode{};
    YamlNode root = builder.take();
    check_keys(root, diags);
    TreeBuilder rest(file, lines, diags);
    if (parser.HandleNextDocument(rest))
      diags.error("yaml-documents", rest.take().loc, "a second YAML document; a schedule is one");
    if (diags.errors() == errors) return root;
  } catch (const YAML::Exception& error) {
    diags.error("yaml-syntax", builder.loc(error.mark), "{}", printable(error.msg));
  } catch (const Refusal&) {
  }
  return {};
}

}  // namespace weftc
