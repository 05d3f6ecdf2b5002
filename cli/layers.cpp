// Folds rows about equal layers, by the first number that is a part of a name. It looks at texts only, so it
// serves every list that names nodes.
#include "cli/layers.h"

#include <algorithm>
#include <cctype>
#include <map>
#include <set>

#include "ir/base/text.h"

namespace weftc {

namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_joint(char c) { return c == '.' || c == '/'; }
bool is_in_name(char c) { return is_joint(c) || c == '_' || std::isalnum(static_cast<unsigned char>(c)); }

/// The position, from `at` on, of a number that is a part of a name between '.' or '/', or npos.
size_t find_part(const std::string& text, size_t at, size_t& end) {
  for (; at < text.size(); at = std::max(end, at + 1)) {
    end = at;
    if (!is_digit(text[at]) || (at > 0 && is_in_name(text[at - 1]) && !is_joint(text[at - 1]))) continue;
    while (end < text.size() && is_digit(text[end])) ++end;
    const bool ends = end == text.size() || !is_in_name(text[end]) || is_joint(text[end]);
    const bool is_joined = (at > 0 && is_joint(text[at - 1])) || (end < text.size() && is_joint(text[end]));
    if (ends && is_joined) return at;
  }
  return std::string::npos;
}

/// The first number that is a part of a name; empty: none.
std::string layer_of(const std::string& text) {
  size_t end = 0;
  const size_t at = find_part(text, 0, end);
  return at == std::string::npos ? "" : text.substr(at, end - at);
}

/// "{l}" in place of each part that is this number.
std::string without_layer(const std::string& text, const std::string& layer) {
  std::string out;
  size_t done = 0, end = 0;
  for (size_t at; (at = find_part(text, done, end)) != std::string::npos; done = end) {
    const std::string number = text.substr(at, end - at);
    out += text.substr(done, at - done) + (number == layer ? "{l}" : number);
  }
  return out + text.substr(done);
}

/// "0 to 11", or all of them.
std::string range_text(const std::set<int>& layers) {
  const int first = *layers.begin(), last = *layers.rbegin();
  if (static_cast<size_t>(last - first) + 1 == layers.size()) return format("{} to {}", first, last);
  std::vector<std::string> all;
  for (const int layer : layers) all.push_back(std::to_string(layer));
  return join(all, ", ");
}

/// Rows that differ by their layer's number.
struct Group {
  std::vector<std::string> folded, first;
  std::set<int> layers;
};

/// A name cut after each '.' and '/'.
std::vector<std::string> parts_of(const std::string& name) {
  std::vector<std::string> parts(1);
  for (const char c : name) {
    parts.back() += c;
    if (is_joint(c)) parts.emplace_back();
  }
  return parts;
}

/// The last `count` parts.
std::string end_of(const std::vector<std::string>& parts, size_t count) {
  std::string out;
  for (size_t i = parts.size() - std::min(count, parts.size()); i < parts.size(); ++i) out += parts[i];
  return out;
}

}  // namespace

TableRows fold_layers(const TableRows& rows, const std::vector<size_t>& name_cells) {
  std::vector<Group> groups;
  std::map<std::vector<std::string>, size_t> known;
  bool is_folded = false;
  for (const std::vector<std::string>& row : rows) {
    const std::string layer = layer_of(row[name_cells.front()]);
    const bool has_layer = !layer.empty() && layer.size() < 6;
    std::vector<std::string> folded = row;
    if (has_layer)
      for (const size_t cell : name_cells) folded[cell] = without_layer(row[cell], layer);
    const auto [at, is_new] = known.emplace(folded, groups.size());
    // Two rows of one layer, or of none, stay two rows.
    const bool is_alone = !has_layer || (!is_new && groups[at->second].layers.contains(std::stoi(layer)));
    if (is_new || is_alone) groups.push_back({folded, row, {}});
    if (is_alone) continue;
    groups[at->second].layers.insert(std::stoi(layer));
    is_folded |= groups[at->second].layers.size() > 1;
  }
  TableRows out;
  for (const Group& group : groups) {
    out.push_back(group.layers.size() > 1 ? group.folded : group.first);
    if (is_folded) out.back().push_back(group.layers.size() > 1 ? "l = " + range_text(group.layers) : "");
  }
  return out;
}

std::vector<std::string> name_ends(const std::vector<std::string>& names) {
  std::map<std::string, std::set<std::string>> with_end;  // names but for their layers, by their ends
  const auto folded = [](const std::string& name) { return without_layer(name, layer_of(name)); };
  for (const std::string& name : names) {
    const std::vector<std::string> parts = parts_of(folded(name));
    for (size_t count = 1; count <= parts.size(); ++count) with_end[end_of(parts, count)].insert(folded(name));
  }
  std::vector<std::string> out;
  for (const std::string& name : names) {
    const std::vector<std::string> parts = parts_of(name), pattern = parts_of(folded(name));
    size_t count = 2;
    while (count < parts.size() && with_end[end_of(pattern, count)].size() > 1) ++count;
    out.push_back(end_of(parts, count));
  }
  return out;
}

}  // namespace weftc
