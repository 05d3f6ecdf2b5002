// Typed reading of YAML nodes. Each function reports errors and then returns nothing or false.
#pragma once
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "frontend/yaml_reader.h"

namespace weftc {

class YamlValues {
 public:
  explicit YamlValues(Diags& diags) : diags_(diags) {}

  bool is_map(const YamlNode& node, const std::string& what) { return has_kind(node, YamlNode::Kind::Map, what); }
  bool is_list(const YamlNode& node, const std::string& what) { return has_kind(node, YamlNode::Kind::List, what); }
  /// A single value that is not empty.
  std::optional<std::string> word(const YamlNode& node, const std::string& what);
  /// A plain decimal integer from `least` to `most`.
  std::optional<int64_t> integer(const YamlNode& node, const std::string& what, int64_t least, int64_t most);
  /// A plain decimal number from `least` to `most`.
  std::optional<double> number(const YamlNode& node, const std::string& what, double least, double most);
  /// One of `words`; its index.
  std::optional<size_t> choice(const YamlNode& node, const std::string& what, const std::vector<std::string>& words);
  /// One integer or a list of them, at least one.
  std::optional<std::vector<int64_t>> integers(const YamlNode& node, const std::string& what, int64_t least,
                                               int64_t most);
  /// "70GiB", "1024": a whole number of bytes, `least` or more.
  std::optional<int64_t> bytes(const YamlNode& node, const std::string& what, int64_t least = 1);

  /// The entries of a mapping with known keys: each key's reader is called by name; unknown keys are reported.
  struct Key {
    const char* name;
    std::function<void(const YamlNode& value)> read;
    bool required = false;
  };
  void keys(const YamlNode& map, const std::string& what, const std::vector<Key>& keys);
  /// The entries of a mapping with free names.
  void names(const YamlNode& map, const std::string& what,
             const std::function<void(const std::string& name, const YamlNode& key, const YamlNode& value)>& read);

  Diags& diags() { return diags_; }

 private:
  bool has_kind(const YamlNode& node, YamlNode::Kind kind, const std::string& what);

  Diags& diags_;
};

}  // namespace weftc
