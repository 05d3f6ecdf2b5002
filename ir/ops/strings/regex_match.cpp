// RegexFullMatch (ONNX RegexFullMatch-20): whether a whole string matches a regular expression. The expression becomes
// the table of an automaton when the model is compiled; a program walks through it.
#include "ir/ops/strings/automaton.h"
#include "ir/ops/strings/strings.h"

namespace weftc {

namespace {

// AutomatonMatch(x; table [states, 257])

bool accepts(const std::string& text, const Tensor& table) {
  int64_t state = 0;
  for (const char byte : text) state = table.integers[state * kAutomatonRow + static_cast<uint8_t>(byte)];
  return table.integers[state * kAutomatonRow + kAutomatonRow - 1] != 0;
}

void eval_match(EvalContext& context) {
  Tensor result(DType::Bool, context.result_dims[0]);
  for (int64_t i = 0; i < result.size(); ++i)
    result.integers[i] = accepts(string_of(context.in(0).integers[i]), context.in(1));
  context.results[0] = std::move(result);
}

bool infer_match(const OpView& op, std::vector<TensorType>& results) {
  results = {{DType::Bool, op.type(0).shape, {}}};
  return is_string_operand(op, 0);
}

/// A pattern for messages; a long one is cut.
std::string shown(const std::string& pattern) {
  constexpr size_t kMost = 80;
  return printable(pattern.substr(0, kMost)) + (pattern.size() > kMost ? "..." : "");
}

/// Nothing after reporting.
std::optional<std::vector<int32_t>> table_of(const OpView& op) {
  const std::string& text = text_of(op.op(), "pattern");
  Regex pattern;
  RegexFault fault;
  if (!parse_regex(text, pattern, fault)) {
    op.fail(fault.is_unsupported ? "regex-unsupported" : "regex-pattern", "pattern '{}' {}{}", shown(text), fault.what,
            fault.is_unsupported ? ", which is not supported" : "");
    return {};
  }
  std::optional<std::vector<int32_t>> table = automaton_of(pattern);
  if (!table)
    op.fail("regex-size-unsupported", "pattern '{}' needs too large an automaton, of more than 2048 states",
            shown(text));
  return table;
}

bool infer_regex(const OpView& op, std::vector<TensorType>& results) {
  return infer_match(op, results) && table_of(op);
}

std::vector<ValueId> decompose_regex(Builder& build, const OpView& op) {
  const std::vector<int32_t> numbers = *table_of(op);
  Tensor table(DType::I32, {static_cast<int64_t>(numbers.size()) / kAutomatonRow, kAutomatonRow});
  table.integers.assign(numbers.begin(), numbers.end());
  return {build.op(OpKind::AutomatonMatch, {op.op().inputs[0], build.constant(table)})};
}

}  // namespace

const OpDef kAutomatonMatch =
    string_look_up(OpKind::AutomatonMatch, "AutomatonMatch", 2, "weft::is_accepted($0, $1)", eval_match, infer_match);

const OpDef kRegexFullMatch{.kind = OpKind::RegexFullMatch,
                            .name = "RegexFullMatch",
                            .onnx = {"RegexFullMatch", 20},
                            .attrs = {{"pattern", AttrType::Text, {}, true}},
                            .infer = infer_regex,
                            .decompose = decompose_regex,
                            .takes_strings = true};

}  // namespace weftc
