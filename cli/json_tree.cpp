// Builds the tree from events; the values that are still open are a stack.
#include "cli/json_tree.h"

#include "cli/json_events.h"

namespace weftc {

namespace {

constexpr size_t kDeepest = 32;

class TreeBuilder final : public nlohmann::json_sax<nlohmann::json> {
 public:
  explicit TreeBuilder(std::string_view text) : text_(text) {}

  bool run() { return read_json_events(text_, reached_, *this); }
  JsonNode take() { return std::move(root_); }
  const std::string& why() const { return why_; }
  size_t where() const { return where_; }

 private:
  using Kind = JsonNode::Kind;

  /// Where the next token begins, from where the last one ended.
  size_t next_token() const {
    const size_t at = text_.find_first_not_of(" \t\r\n,:", ended_);
    return at == std::string_view::npos ? text_.size() : at;
  }
  /// Adds a value to the enclosing list or object. Its address is valid until another one is added.
  JsonNode* add(Kind kind) {
    JsonNode node;
    node.kind = kind;
    node.at = next_token();
    ended_ = static_cast<size_t>(reached_ - text_.data());
    if (open_.empty()) {
      root_ = std::move(node);
      return &root_;
    }
    JsonNode& parent = *open_.back();
    if (parent.is(Kind::List)) return &parent.items.emplace_back(std::move(node));
    return &parent.members.emplace_back(JsonNode::Member{key_, std::move(node)}).value;
  }
  bool open(Kind kind) {
    JsonNode* const node = add(kind);
    if (open_.size() == kDeepest) return refuse(node->at, format("values are nested more than {} deep", kDeepest));
    open_.push_back(node);
    return true;
  }
  bool close() {
    open_.pop_back();
    ended_ = static_cast<size_t>(reached_ - text_.data());
    return true;
  }
  bool refuse(size_t where, std::string why) {
    where_ = where;
    why_ = std::move(why);
    return false;
  }

  bool null() override { return add(Kind::Null) != nullptr; }
  bool boolean(bool) override { return add(Kind::Boolean) != nullptr; }
  bool number_integer(number_integer_t value) override {
    add(Kind::Integer)->integer = value;
    return true;
  }
  bool number_unsigned(number_unsigned_t value) override {
    const bool fits = value <= static_cast<number_unsigned_t>(INT64_MAX);
    add(fits ? Kind::Integer : Kind::Number)->integer = fits ? static_cast<int64_t>(value) : 0;
    return true;
  }
  bool number_float(number_float_t, const string_t&) override { return add(Kind::Number) != nullptr; }
  bool string(string_t& value) override {
    add(Kind::String)->text = value;
    return true;
  }
  bool binary(binary_t&) override { return true; }
  bool start_object(std::size_t) override { return open(Kind::Object); }
  bool key(string_t& value) override {
    const size_t at = next_token();
    ended_ = static_cast<size_t>(reached_ - text_.data());
    key_ = value;
    return !open_.back()->find(value) || refuse(at, format("'{}' is given twice", printable(value)));
  }
  bool end_object() override { return close(); }
  bool start_array(std::size_t) override { return open(Kind::List); }
  bool end_array() override { return close(); }
  bool parse_error(std::size_t position, const std::string&, const nlohmann::detail::exception& error) override {
    return refuse(position == 0 ? 0 : position - 1, printable(json_reason(error.what())));
  }

  const std::string_view text_;
  const char* reached_ = nullptr;
  size_t ended_ = 0;  // the last token
  JsonNode root_;
  std::vector<JsonNode*> open_;  // no value is added to the same parent meanwhile, so that they do not move
  std::string key_;
  std::string why_;
  size_t where_ = 0;
};

}  // namespace

const JsonNode* JsonNode::find(const std::string& name) const {
  for (const auto& [key, value] : members)
    if (key == name) return &value;
  return nullptr;
}

std::optional<JsonNode> read_json_tree(const std::string& file, std::string_view text, Diags& diags) {
  TreeBuilder builder(text);
  if (builder.run()) return builder.take();
  diags.error("json-text", json_place(file, text, builder.where()), "{}", builder.why());
  return {};
}

}  // namespace weftc
