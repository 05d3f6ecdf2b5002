// `weft ops`: the operators that can be compiled, with facts from their records.
#include <cstdio>
#include <map>

#include "cli/commands.h"
#include "cli/json.h"
#include "cli/table.h"
#include "ir/base/text.h"
#include "ir/op_def.h"

namespace weftc {

namespace {

/// The table's facts about an operator, all from its record.
struct OpRow {
  std::string domain, name, since, how, types, targets, sharding;
  const OpDef* def = nullptr;
};

const char* type_name(AttrType type) {
  static constexpr const char* kNames[] = {"int", "float", "string", "ints", "floats", "strings", "tensor", "type"};
  return kNames[static_cast<int>(type)];
}

/// The default of an int, a float or a string, or null.
std::string default_json(const AttrSpec& spec) {
  if (!spec.otherwise) return "null";
  if (const int64_t* integer = std::get_if<int64_t>(&*spec.otherwise)) return std::to_string(*integer);
  if (const double* real = std::get_if<double>(&*spec.otherwise)) return shortest(*real);
  if (const std::string* text = std::get_if<std::string>(&*spec.otherwise)) return json_string(*text);
  return "null";
}

/// Attributes of ONNX nodes: type, default, whether they are required, and the values of those that have only a few.
std::string attributes_json(const OpDef& def) {
  std::vector<std::pair<std::string, std::string>> attributes;
  for (const AttrSpec& spec : def.attrs) {
    if (spec.is_own) continue;
    std::vector<std::pair<std::string, std::string>> fields = {{"type", json_string(type_name(spec.type))},
                                                               {"default", default_json(spec)},
                                                               {"required", spec.required ? "true" : "false"}};
    if (spec.choices) fields.push_back({"choices", json_strings(split(spec.choices, ' '))});
    attributes.push_back({spec.name, json_object(fields)});
  }
  return json_object(attributes);
}

/// How many operands there are at least and at most (-1: any number), and which of the first may be left out.
std::string inputs_json(const Arity& inputs) {
  std::vector<std::string> optional;
  for (const int input : inputs.optional) optional.push_back(std::to_string(input));
  return json_object(
      {{"min", std::to_string(inputs.min)}, {"max", std::to_string(inputs.max)}, {"optional", json_list(optional)}});
}

/// How the compiler lowers an op.
std::string how_lowered(const OpDef& def) {
  if (def.category == Category::Composite) return "from simpler ones";
  return std::string(category_name(def.category)) + (def.decompose ? ", or from simpler ones" : "");
}

/// Element types of the operands that take part in the computation.
std::string types_of(const OpDef& def) {
  std::string types = "numbers";
  if (def.category == Category::Composite || def.unfold) types = "as its parts";
  if (def.category == Category::View || def.category == Category::Region) types = "all";
  if (def.value && !def.int_value) types = "floats";
  if (def.int_value && !def.value) types = "integers";
  return types + (def.takes_strings && types != "all" ? ", strings" : "");
}

/// Kernels for a grid have no functions of strings.
std::string targets_of(const OpDef& def) { return def.takes_strings ? "host, cuda but for strings" : "host, cuda"; }

/// Which loops of an op may be cut over the axes of the mesh.
std::string sharding_of(const OpDef& def) {
  if (def.einsum) return def.einsum;
  if (def.factors) return "by its factors";
  switch (def.category) {
    case Category::Pointwise:
      return "every dimension";
    case Category::View:
      return "dimensions that it keeps";
    case Category::Composite:
      return "as its parts";
    case Category::Region:
      return "as its bodies";
    case Category::Collective:
      return "the axes that it names";
    default:
      return "none";
  }
}

std::vector<OpRow> op_rows() {
  std::map<std::pair<std::string, std::string>, OpRow> sorted;
  for (const OpDef* def : all_op_defs()) {
    std::vector<OnnxName> names = def->aliases;
    names.push_back(def->onnx);
    for (const OnnxName& name : names) {
      if (*name.name == '\0') continue;
      const std::string domain = std::string(name.domain) == "ai.onnx" ? "" : name.domain;
      sorted[{domain, name.name}] = {domain.empty() ? "ai.onnx" : domain,
                                     name.name,
                                     std::to_string(name.since),
                                     how_lowered(*def),
                                     types_of(*def),
                                     targets_of(*def),
                                     sharding_of(*def),
                                     def};
    }
  }
  std::vector<OpRow> rows;
  for (auto& [key, row] : sorted) rows.push_back(std::move(row));
  return rows;
}

/// Operators of one kind on one line: a table that a README can hold.
void print_markdown(const std::vector<OpRow>& rows) {
  std::map<std::pair<std::string, std::string>, std::vector<std::string>> groups;
  for (const OpRow& row : rows)
    groups[{row.domain == "ai.onnx" ? "" : row.domain, row.how}].push_back(
        row.since == "1" ? row.name : row.name + " (" + row.since + ")");
  std::printf("| domain | computed as | operators (first opset, where it is not 1) |\n|---|---|---|\n");
  for (const auto& [key, names] : groups)
    std::printf("| %s | %s | %s |\n", key.first.empty() ? "ai.onnx" : key.first.c_str(), key.second.c_str(),
                join(names, ", ").c_str());
}

}  // namespace

int run_ops(const Options& options) {
  const std::vector<OpRow> rows = op_rows();
  if (options.markdown) {
    print_markdown(rows);
    return 0;
  }
  std::vector<std::string> items;
  TableRows cells = {{"operator", "since", "computed as", "types", "targets", "sharded along"}};
  for (const OpRow& row : rows) {
    items.push_back(json_object({{"domain", json_string(row.domain)},
                                 {"name", json_string(row.name)},
                                 {"since", row.since},
                                 {"lowering", json_string(row.how)},
                                 {"types", json_string(row.types)},
                                 {"targets", json_string(row.targets)},
                                 {"sharding", json_string(row.sharding)},
                                 {"attributes", attributes_json(*row.def)},
                                 {"inputs", inputs_json(row.def->inputs)}}));
    cells.push_back({row.domain == "ai.onnx" ? row.name : row.domain + "." + row.name, row.since, row.how, row.types,
                     row.targets, row.sharding});
  }
  std::printf("%s", options.json ? (json_lines(items) + "\n").c_str() : table_text(cells).c_str());
  return 0;
}

}  // namespace weftc
