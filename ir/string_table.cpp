// The table only grows, and a string never changes its number: for its readers the table is constant.
#include "ir/string_table.h"

#include <cstring>
#include <deque>
#include <mutex>
#include <unordered_map>

#include "ir/base/check.h"
#include "ir/base/text.h"
#include "ir/base/utf8.h"

namespace weftc {

namespace {

class StringTable {
 public:
  StringTable() { id_of(""); }

  int64_t id_of(std::string_view string) {
    const std::lock_guard lock(mutex_);
    if (const auto known = ids_.find(string); known != ids_.end()) return known->second;
    const auto id = static_cast<int64_t>(strings_.size());
    ids_.emplace(strings_.emplace_back(string), id);
    return id;
  }
  const std::string& at(int64_t id) {
    const std::lock_guard lock(mutex_);
    WEFT_CHECK(id >= 0 && id < static_cast<int64_t>(strings_.size()), "no string has this number");
    return strings_[static_cast<size_t>(id)];
  }

 private:
  std::mutex mutex_;
  std::deque<std::string> strings_;  // a deque, so that strings do not move
  std::unordered_map<std::string_view, int64_t> ids_;
};

StringTable& table() {
  static StringTable strings;
  return strings;
}

}  // namespace

int64_t string_id(std::string_view string) { return table().id_of(string); }
const std::string& string_of(int64_t id) { return table().at(id); }

std::string_view string_in_memory(const std::byte* element) {
  return {reinterpret_cast<const char*>(element + 1), std::to_integer<size_t>(element[0])};
}

void put_in_memory(std::string_view string, std::byte* element) {
  WEFT_CHECK(string.size() <= static_cast<size_t>(kMostStringBytes), "a string is longer than an element");
  std::memset(element, 0, 1 + static_cast<size_t>(kMostStringBytes));
  element[0] = static_cast<std::byte>(string.size());
  std::memcpy(element + 1, string.data(), string.size());
}

std::string why_no_element(std::string_view string) {
  if (string.size() > static_cast<size_t>(kMostStringBytes))
    return format("has {} bytes, more than the {} that an element has room for", string.size(), kMostStringBytes);
  return utf32_of(string) ? "" : "is no UTF-8";
}

}  // namespace weftc
