// StringConcat (ONNX StringConcat-20), FindString, and common code of the other records of strings.
#include <algorithm>
#include <numeric>

#include "ir/base/utf8.h"
#include "ir/ops/pointwise.h"
#include "ir/ops/strings/strings.h"

namespace weftc {

static void eval_string_function(EvalContext& context) {
  eval_pointwise(context);
  const Tensor& result = context.results[0];
  if (result.dtype != DType::String) return;
  context.is_refused = std::any_of(result.integers.begin(), result.integers.end(),
                                   [](int64_t id) { return !why_no_element(string_of(id)).empty(); });
}

OpDef string_function(OpKind kind, const char* name, int operands, const char* scalar, IntFn value, InferFn infer) {
  OpDef def;
  def.kind = kind;
  def.name = name;
  def.inputs = {operands, operands};
  def.category = Category::Pointwise;
  def.infer = infer;
  def.scalar = scalar;
  def.cost = ScalarCost::Function;
  def.int_value = value;
  def.eval = eval_string_function;
  def.takes_strings = true;
  return def;
}

/// The dimensions of the strings pass; tables are whole.
static FactorRule factors_look_up(const OpView& op) {
  FactorRule rule = pass_rule(op.type(0).shape);
  std::vector<int> all(op.type(0).shape.size());
  std::iota(all.begin(), all.end(), 0);
  rule.inputs = rule.outputs = {all};
  for (int table = 1; table < op.inputs(); ++table) {
    std::vector<int>& dims = rule.inputs.emplace_back();
    for (const Extent& extent : op.type(table).shape) {
      dims.push_back(static_cast<int>(rule.factors.size()));
      rule.factors.push_back({extent.bound, Factor::Role::Whole});
    }
  }
  return rule;
}

OpDef string_look_up(OpKind kind, const char* name, int operands, const char* scalar, EvalFn eval, InferFn infer) {
  OpDef def = string_function(kind, name, operands, scalar, nullptr, infer);
  def.category = Category::Index;
  def.eval = eval;
  def.factors = factors_look_up;
  return def;
}

bool is_string_operand(const OpView& op, int input) {
  if (op.type(input).dtype == DType::String) return true;
  return op.fail("operand-not-string", "operand {} has element type {}, strings are needed", input,
                 dtype_name(op.type(input).dtype));
}

bool are_elements(const OpView& op, const std::vector<std::string>& strings, const char* what) {
  for (size_t i = 0; i < strings.size(); ++i)
    if (const std::string why = why_no_element(strings[i]); !why.empty())
      return op.fail(utf32_of(strings[i]) ? "string-length-unsupported" : "string-encoding", "{}, number {}, {}", what,
                     i, why);
  return true;
}

Tensor string_list(const std::vector<std::string>& strings) {
  Tensor list(DType::String, {static_cast<int64_t>(strings.size())});
  for (size_t i = 0; i < strings.size(); ++i) list.integers[i] = string_id(strings[i]);
  return list;
}

Tensor string_scalar(std::string_view string) {
  Tensor scalar(DType::String, {});
  scalar.integers[0] = string_id(string);
  return scalar;
}

Term position_in(Builder& build, Term x, const std::vector<std::string>& list) {
  std::vector<size_t> order(list.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return list[a] < list[b]; });
  std::vector<std::string> sorted;
  std::vector<int64_t> places;
  for (const size_t at : order) {
    if (!sorted.empty() && sorted.back() == list[at]) continue;
    sorted.push_back(list[at]);
    places.push_back(static_cast<int64_t>(at));
  }
  places.push_back(static_cast<int64_t>(list.size()));
  const ValueId found = build.op(OpKind::FindString, {x.value(), build.constant(string_list(sorted))},
                                 {{"count", static_cast<int64_t>(sorted.size())}});
  return pick(build, {build, build.ints(places)}, {build, found}, 0);
}

namespace {

bool infer_concat(const OpView& op, std::vector<TensorType>& results) {
  return is_string_operand(op, 0) && is_string_operand(op, 1) && infer_broadcast(op, results);
}

OpDef string_concat() {
  OpDef def = string_function(
      OpKind::StringConcat, "StringConcat", 2, "weft::concat($0, $1)",
      [](const int64_t* x, const Op&, DType) { return string_id(string_of(x[0]) + string_of(x[1])); }, infer_concat);
  def.onnx = {"StringConcat", 20};
  return def;
}

/// A list in ascending order, which is `count` long.
bool infer_find(const OpView& op, std::vector<TensorType>& results) {
  results = {{DType::I64, op.type(0).shape, {}}};
  return is_string_operand(op, 0) && is_string_operand(op, 1) && has_ndim(op, 1, 1, 1);
}

void eval_find(EvalContext& context) {
  const Tensor &x = context.in(0), &list = context.in(1);
  Tensor result(DType::I64, context.result_dims[0]);
  for (int64_t i = 0; i < result.size(); ++i) {
    const auto at = std::find(list.integers.begin(), list.integers.end(), x.integers[i]);
    result.integers[i] = at - list.integers.begin();
  }
  context.results[0] = std::move(result);
}

OpDef find_string() {
  OpDef def =
      string_look_up(OpKind::FindString, "FindString", 2, "weft::find_string($0, $1, $count)", eval_find, infer_find);
  def.attrs = {{.name = "count", .type = AttrType::Int, .required = true, .is_own = true}};
  return def;
}

}  // namespace

const OpDef kStringConcat = string_concat();
const OpDef kFindString = find_string();

}  // namespace weftc
