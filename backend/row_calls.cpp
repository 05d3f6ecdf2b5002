#include "backend/row_calls.h"

#include <algorithm>

#include "backend/print.h"

namespace weftc {

Statements all_of_body(const Statements& body) {
  Statements all;
  for (const Statement& statement : body)
    if (const Later* later = std::get_if<Later>(&statement.what))
      append(all, *later->statements);
    else
      all.push_back(statement);
  return all;
}

template <class T>
static bool is(const Statement& statement) {
  return std::holds_alternative<T>(statement.what);
}

/// The runtime's function for the loop; null without one.
static const char* function_of(const For& loop, const Statements& body, const std::string& type) {
  const ReduceOp op = loop.accumulator->op;
  const bool stores = std::any_of(body.begin(), body.end(), is<Store>);
  if (op == ReduceOp::Max && !stores) return "weft::maximum_of<";
  if (op == ReduceOp::Min && !stores) return "weft::minimum_of<";
  if (op != ReduceOp::Sum || (type != "float" && type != "double")) return nullptr;
  return stores ? "weft::sum_of_stored<" : "weft::sum_of<";
}

/// True if the loop reduces values computed from local ones, may store them, and does nothing else.
static bool only_reduces(const For& loop) {
  if (loop.kind != LoopKind::Vector || !loop.accumulator) return false;
  if (!is_number(loop.first, 0) || !is_number(loop.step, 1)) return false;  // a part of a row
  const Statements body = all_of_body(loop.body);
  const auto is_plain = [](const Statement& s) { return is<Let>(s) || is<Reduce>(s) || is<Store>(s); };
  return std::all_of(body.begin(), body.end(), is_plain) && std::count_if(body.begin(), body.end(), is<Reduce>) == 1;
}

static bool is_short(const Expr& bound) {
  constexpr int64_t kLeast = 16;
  const bool is_number = bound.node().kind == Expr::Node::Kind::Index && bound.node().index.is_constant();
  return is_number && bound.node().index.constant() < kLeast;
}

void bare_vector_loops(Statements& statements) {
  for (Statement& statement : statements) {
    if (Statements* body = statement.body()) bare_vector_loops(*body);
    const Braces* braces = std::get_if<Braces>(&statement.what);
    if (!braces) continue;
    const Statements inside = all_of_body(braces->body);
    const For* loop = inside.size() == 1 ? std::get_if<For>(&inside.front().what) : nullptr;
    if (loop && loop->kind == LoopKind::Vector && loop->accumulator) statement = Statement(inside.front());
  }
}

bool becomes_row_call(const For& loop) {
  return only_reduces(loop) && !is_short(loop.bound) && function_of(loop, all_of_body(loop.body), "float");
}

/// The declaration of a loop's accumulator among the statements before it.
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
  Expr reduced;
  for (Statement& statement : all_of_body(loop.body))
    if (const Reduce* reduce = std::get_if<Reduce>(&statement.what))
      reduced = reduce->value;
    else
      callback.body.push_back(std::move(statement));
  callback.body.push_back(Return{reduced});
  return callback;
}

/// Replaces loops directly among the statements; true if one became a call.
static bool call_here(Statements& statements) {
  bool has_call = false;
  for (size_t i = 0; i < statements.size(); ++i) {
    const auto at = statements.begin() + static_cast<int64_t>(i);
    const For* loop = std::get_if<For>(&at->what);
    if (!loop || !only_reduces(*loop) || is_short(loop->bound)) continue;
    const auto declaration = declaration_of(statements, at, loop->accumulator->name);
    if (declaration == statements.end()) continue;
    const Let& accumulator = std::get<Let>(declaration->what);
    const char* function = function_of(*loop, all_of_body(loop->body), accumulator.type);
    if (!function) continue;
    *at = call_of(*loop, accumulator, function);
    statements.erase(declaration);
    --i;
    has_call = true;
  }
  return has_call;
}

/// The same at any depth, innermost first.
static bool make_calls(Statements& statements) {
  for (Statement& statement : statements) {
    Statements* body = statement.body();
    if (!body) continue;
    For* loop = std::get_if<For>(&statement.what);
    // The called function has loops of its own.
    if (make_calls(*body) && loop && loop->kind == LoopKind::Vector) loop->kind = LoopKind::Serial;
  }
  return call_here(statements);
}

void call_for_rows(Statements& statements) { make_calls(statements); }

}  // namespace weftc
