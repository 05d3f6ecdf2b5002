// Reads JSON by events (nlohmann-json's SAX parser) and keeps one object at a time, since traces are long.
#include "cli/json_items.h"

#include "cli/json_events.h"

namespace weftc {

namespace {

/// Gathers objects at one depth and ignores everything outside of them.
class Gatherer final : public nlohmann::json_sax<nlohmann::json> {
 public:
  using Take = std::function<std::string(const JsonItem&)>;

  /// The objects are items of the member `list` of the outermost object, or if `list` is empty, the outermost object
  /// itself.
  Gatherer(std::string_view text, std::string list, Take take)
      : text_(text), list_(std::move(list)), take_(std::move(take)) {}

  /// False: it ended early, and why() and where() say more.
  bool run() { return read_json_events(text_, reached_, *this); }
  bool has_list() const { return has_list_; }
  const std::string& why() const { return why_; }
  size_t where() const { return where_; }

 private:
  struct Level {
    bool is_list;
    std::string path;  // of what stands in it, from the item on
    std::string key;
  };

  size_t offset() const { return static_cast<size_t>(reached_ - text_.data()); }
  bool is_at_item() const {
    if (list_.empty()) return levels_.empty();
    return levels_.size() == 2 && !levels_[0].is_list && levels_[0].key == list_ && levels_[1].is_list;
  }
  std::string path() const {
    const Level& level = levels_.back();
    return level.path.empty() ? level.key : level.path + "." + level.key;
  }
  size_t depth_of_item() const { return list_.empty() ? 0 : 2; }

  bool enter(bool is_list) {
    const bool begins = !is_list && is_at_item();
    if (is_list && levels_.size() == 1 && levels_[0].key == list_) has_list_ = true;
    std::string below = in_item_ ? path() : "";
    if (begins) item_ = JsonItem{offset() - 1, {}, {}}, in_item_ = true;
    levels_.push_back({is_list, std::move(below), is_list ? "[]" : ""});
    return true;
  }
  bool leave() {
    levels_.pop_back();
    if (!in_item_ || levels_.size() != depth_of_item()) return true;
    in_item_ = false;
    why_ = take_(item_);
    where_ = item_.at;
    return why_.empty();
  }
  bool take_number(double value) {
    if (in_item_) item_.numbers[path()] = value;
    return true;
  }

  bool null() override { return true; }
  bool boolean(bool) override { return true; }
  bool number_integer(number_integer_t value) override { return take_number(static_cast<double>(value)); }
  bool number_unsigned(number_unsigned_t value) override { return take_number(static_cast<double>(value)); }
  bool number_float(number_float_t value, const string_t&) override { return take_number(value); }
  bool string(string_t& value) override {
    if (in_item_) item_.strings[path()] = value;
    return true;
  }
  bool binary(binary_t&) override { return true; }
  bool start_object(std::size_t) override { return enter(false); }
  bool key(string_t& value) override {
    levels_.back().key = value;
    return true;
  }
  bool end_object() override { return leave(); }
  bool start_array(std::size_t) override { return enter(true); }
  bool end_array() override { return leave(); }
  bool parse_error(std::size_t position, const std::string&, const nlohmann::detail::exception& error) override {
    why_ = json_reason(error.what());
    where_ = position == 0 ? 0 : position - 1;
    return false;
  }

  const std::string_view text_;
  const std::string list_;
  const Take take_;
  const char* reached_ = nullptr;
  std::vector<Level> levels_;  // open objects and lists
  bool in_item_ = false, has_list_ = false;
  JsonItem item_;
  std::string why_;
  size_t where_ = 0;
};

}  // namespace

std::string JsonItem::string(const std::string& path) const {
  const auto found = strings.find(path);
  return found == strings.end() ? "" : found->second;
}

double JsonItem::number(const std::string& path, double otherwise) const {
  const auto found = numbers.find(path);
  return found == numbers.end() ? otherwise : found->second;
}

bool read_json_list(const std::string& file, std::string_view text, const std::string& list,
                    const std::function<std::string(const JsonItem&)>& take, Diags& diags) {
  Gatherer gatherer(text, list, take);
  const bool is_complete = gatherer.run();
  if (is_complete && gatherer.has_list()) return true;
  diags.error("trace-text", json_place(file, text, gatherer.where()), "{}",
              is_complete ? format("there is no list '{}'", list) : printable(gatherer.why()));
  return false;
}

JsonItem read_json_object(std::string_view text) {
  JsonItem object;
  Gatherer gatherer(text, "", [&](const JsonItem& item) {
    object = item;
    return std::string();
  });
  return gatherer.run() ? object : JsonItem{};
}

}  // namespace weftc
