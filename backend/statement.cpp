// Queries of statement trees: bodies, expressions, loops and declarations inside.
#include "backend/statement.h"

#include <algorithm>
#include <iterator>

namespace weftc {

Statements* Statement::body() {
  return std::visit(
      [](auto& node) -> Statements* {
        if constexpr (requires { node.body; })
          return &node.body;
        else if constexpr (requires { node.statements; })
          return node.statements.get();
        else
          return nullptr;
      },
      what);
}

using Visitor = std::function<void(const Expr&)>;

static void visit_expressions(const Expr& expr, const Visitor& visit) {
  if (expr.empty()) return;
  visit(expr);
  for (const Expr::Operand& operand : expr.node().operands) visit_expressions(operand.expr, visit);
}

/// The expressions of a node that are not statements inside it.
static std::vector<Expr> expressions_of(const Let& let) { return {let.value}; }
static std::vector<Expr> expressions_of(const LocalArray&) { return {}; }
static std::vector<Expr> expressions_of(const Store& store) { return {store.to, store.value}; }
static std::vector<Expr> expressions_of(const Reduce& reduce) { return {reduce.into, reduce.value}; }
static std::vector<Expr> expressions_of(const Call& call) { return {call.call}; }
static std::vector<Expr> expressions_of(const Return& leaving) { return {leaving.value}; }
static std::vector<Expr> expressions_of(const Comment&) { return {}; }
static std::vector<Expr> expressions_of(const Barrier&) { return {}; }
static std::vector<Expr> expressions_of(const Line&) { return {}; }
static std::vector<Expr> expressions_of(const For& loop) { return {loop.first, loop.bound, loop.step}; }
static std::vector<Expr> expressions_of(const TeamTasks& tasks) { return {tasks.count}; }
static std::vector<Expr> expressions_of(const TeamRuns& runs) { return {runs.run}; }
static std::vector<Expr> expressions_of(const If& branch) { return {branch.condition}; }
static std::vector<Expr> expressions_of(const OneLane&) { return {}; }
static std::vector<Expr> expressions_of(const Callback&) { return {}; }
static std::vector<Expr> expressions_of(const Braces&) { return {}; }
static std::vector<Expr> expressions_of(const Later&) { return {}; }

void for_each_expression(const Statements& statements, const Visitor& visit) {
  for (const Statement& statement : statements) {
    const auto expressions = std::visit([](const auto& node) { return expressions_of(node); }, statement.what);
    for (const Expr& expr : expressions) visit_expressions(expr, visit);
    if (const Statements* body = statement.body()) for_each_expression(*body, visit);
  }
}

bool has_loop(const Statements& statements) {
  return std::any_of(statements.begin(), statements.end(), [](const Statement& s) {
    const bool loops = std::holds_alternative<For>(s.what) || std::holds_alternative<TeamRuns>(s.what);
    return loops || (s.body() && has_loop(*s.body()));
  });
}

bool has_declaration(const Statements& statements) {
  return std::any_of(statements.begin(), statements.end(), [](const Statement& s) {
    const Later* later = std::get_if<Later>(&s.what);
    return std::holds_alternative<Let>(s.what) || std::holds_alternative<LocalArray>(s.what) ||
           (later && has_declaration(*later->statements));
  });
}

void append(Statements& statements, Statements more) {
  statements.insert(statements.end(), std::make_move_iterator(more.begin()), std::make_move_iterator(more.end()));
}

void make_serial(Statements& statements) {
  for (Statement& statement : statements) {
    if (For* loop = std::get_if<For>(&statement.what); loop && loop->kind == LoopKind::Vector)
      loop->kind = LoopKind::Serial;
    if (Statements* body = statement.body()) make_serial(*body);
  }
}

void append_part(Statements& statements, Statements part) {
  if (has_declaration(part))
    statements.push_back(Braces{std::move(part)});
  else
    append(statements, std::move(part));
}

}  // namespace weftc
