#include "backend/row_calls.h"

#include <algorithm>

#include "backend/print.h"

namespace weftc {

/// The function that reduces a row of a type; null where there is none.
static const char* function_of(ReduceOp op, const std::string& type) {
  if (op == ReduceOp::Max) return "weft::maximum_of<";
  if (op == ReduceOp::Min) return "weft::minimum_of<";
  const bool has_vectors = type == "float" || type == "double";
  return op == ReduceOp::Sum && has_vectors ? "weft::sum_of<" : nullptr;
}

/// True if the loop reduces what it computes from local values, and does nothing else.
static bool only_reduces(const For& loop) {
  if (loop.kind != LoopKind::Vector || !loop.accumulator) return false;
  const auto is_plain = [](const Statement& statement) {
    const bool is_part = std::holds_alternative<Let>(statement.what) || std::holds_alternative<Reduce>(statement.what);
    return is_part || (std::holds_alternative<Later>(statement.what) && statement.body()->empty());
  };
  const auto is_reduce = [](const Statement& s) { return std::holds_alternative<Reduce>(s.what); };
  return std::all_of(loop.body.begin(), loop.body.end(), is_plain) &&
         std::count_if(loop.body.begin(), loop.body.end(), is_reduce) == 1;
}

static bool is_short(const Expr& bound) {
  constexpr int64_t kLeast = 16;
  const bool is_number = bound.node().kind == Expr::Node::Kind::Index && bound.node().index.is_constant();
  return is_number && bound.node().index.constant() < kLeast;
}

/// Where the accumulator of a loop is declared, among the statements in front of it.
static Statements::iterator declaration_of(Statements& statements, Statements::iterator loop, const std::string& name) {
  const auto found = std::find_if(statements.begin(), loop, [&](const Statement& statement) {
    const Let* let = std::get_if<Let>(&statement.what);
    return let && let->name == name;
  });
  return found == loop ? statements.end() : found;
}

static Callback call_of(const For& loop, const Let& accumulator, const char* function) {
  const Expr call =
      weftc::call(function + accumulator.type + ">", {loop.bound, name("[&](int64_t " + loop.variable + ") {")});
  std::string head = "const " + accumulator.type + " " + accumulator.name + " = " + text_of(call);
  head.pop_back();
  Callback callback{.head = head};
  for (const Statement& statement : loop.body) {
    const Reduce* reduce = std::get_if<Reduce>(&statement.what);
    if (reduce)
      callback.body.push_back(Return{reduce->value});
    else if (std::holds_alternative<Let>(statement.what))
      callback.body.push_back(statement);
  }
  return callback;
}

/// True if one of the statements, not those inside them, has become a call.
static bool call_here(Statements& statements) {
  bool has_call = false;
  for (size_t i = 0; i < statements.size(); ++i) {
    const auto at = statements.begin() + static_cast<int64_t>(i);
    const For* loop = std::get_if<For>(&at->what);
    if (!loop || !only_reduces(*loop) || is_short(loop->bound)) continue;
    const auto declaration = declaration_of(statements, at, loop->accumulator->name);
    if (declaration == statements.end()) continue;
    const Let& accumulator = std::get<Let>(declaration->what);
    const char* function = function_of(loop->accumulator->op, accumulator.type);
    if (!function) continue;
    *at = call_of(*loop, accumulator, function);
    statements.erase(declaration);
    --i;
    has_call = true;
  }
  return has_call;
}

void call_for_rows(Statements& statements) {
  for (Statement& statement : statements) {
    Statements* body = statement.body();
    if (!body) continue;
    call_for_rows(*body);
    For* loop = std::get_if<For>(&statement.what);
    // What is called has loops.
    if (call_here(*body) && loop && loop->kind == LoopKind::Vector) loop->kind = LoopKind::Serial;
  }
}

}  // namespace weftc
