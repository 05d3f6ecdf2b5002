// The `precision:` section of a schedule: `bf16` for all contractions, or `{"h.{l}.mlp.*": bf16, head: fp32}`.
#include "frontend/schedule_sections.h"

namespace weftc {

static DType precision_of(YamlValues& values, const YamlNode& node, const std::string& what) {
  const std::optional<size_t> choice = values.choice(node, what, precision_names());
  return choice ? *parse_precision(precision_names()[*choice]) : DType::F32;
}

std::vector<PrecisionEntry> read_precision(YamlValues& values, const YamlNode& node) {
  if (!node.is(YamlNode::Kind::Map)) return {{{}, precision_of(values, node, "precision"), node.loc}};
  std::vector<PrecisionEntry> entries;
  values.names(node, "precision", [&](const std::string& name, const YamlNode& key, const YamlNode& value) {
    entries.push_back(
        {selector_of(name, key.loc), precision_of(values, value, "the precision of " + printable(name)), key.loc});
  });
  return entries;
}

}  // namespace weftc
