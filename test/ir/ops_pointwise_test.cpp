// The reference of every pointwise op against the table of rows, and what else holds of each record.
#include <doctest/doctest.h>

#include <algorithm>

#include "test/ir/pointwise_rows.h"

namespace weftc {

namespace {

/// The names after the `$` of a scalar text that are no operand number: "T", "alpha".
std::vector<std::string> placeholders(const char* text) {
  std::vector<std::string> words;
  for (std::string_view rest = text ? text : ""; rest.find('$') != std::string_view::npos;) {
    rest.remove_prefix(rest.find('$') + 1);
    size_t length = 0;
    while (length < rest.size() && (std::isalnum(static_cast<unsigned char>(rest[length])) || rest[length] == '_'))
      ++length;
    words.emplace_back(rest.substr(0, length));
  }
  return words;
}

/// Checks that the thing that a `$word` names exists for every op of the record; "" or why not.
std::string placeholder_fault(const OpDef& def, const std::string& word) {
  if (word == "T" || word == "R") return "";
  if (word.empty()) return "a '$' without a name";
  if (std::isdigit(static_cast<unsigned char>(word[0])))
    return std::stoi(word) < std::max(def.inputs.max, 2) ? "" : "there is no operand " + word;
  for (const AttrSpec& attr : def.attrs)
    if (word == attr.name) {
      const bool number = attr.type == AttrType::Int || attr.type == AttrType::Real;
      if (!number) return "attribute '" + word + "' is no number";
      return attr.otherwise || attr.required ? "" : "attribute '" + word + "' may be absent: give it a default";
    }
  return "the record has no attribute '" + word + "'";
}

}  // namespace

TEST_CASE("pointwise ops give what ONNX defines") {
  for (const PointwiseRow& row : pointwise_rows()) {
    const std::string name = op_def(row.kind).name;
    CAPTURE(name);
    OneOp one;
    std::vector<ValueId> operands;
    for (const Tensor& tensor : row.inputs) operands.push_back(one.input(tensor));
    REQUIRE(one.add(row.kind, operands, row.attrs));
    const Tensor result = one.run()[0];
    CHECK(result.dtype == row.expected.dtype);
    CHECK(relative_error(result, row.expected) < 1e-6);
    CHECK(op_def(row.kind).category == Category::Pointwise);
  }
}

TEST_CASE("every pointwise record has a row in this table") {
  for (const OpDef* def : all_op_defs()) {
    if (def->category != Category::Pointwise) continue;
    const bool has_row = std::ranges::any_of(pointwise_rows(), [&](const auto& row) { return row.kind == def->kind; });
    CHECK_MESSAGE(has_row, std::string(def->name) << " has no row in test/ir/pointwise_rows.h");
  }
}

TEST_CASE("every name in a scalar text is an operand or a number of the record") {
  for (const OpDef* def : all_op_defs())
    for (const char* text : {def->scalar, def->scalar_int})
      for (const std::string& word : placeholders(text)) {
        const std::string fault = placeholder_fault(*def, word);
        CHECK_MESSAGE(fault.empty(), std::string(def->name) << ": " << fault);
      }
  OpDef wrong;
  wrong.attrs = {{"mode", AttrType::Text, "up"}, {"scale", AttrType::Real}};
  CHECK(placeholder_fault(wrong, "alpha") == "the record has no attribute 'alpha'");
  CHECK(placeholder_fault(wrong, "mode") == "attribute 'mode' is no number");
  CHECK(placeholder_fault(wrong, "scale") == "attribute 'scale' may be absent: give it a default");
}

}  // namespace weftc
