#include "backend/sums_in_parts.h"

#include <algorithm>

namespace weftc {

int64_t number_of(const Expr& expr) {
  if (expr.empty() || expr.node().kind != Expr::Node::Kind::Index) return 0;
  return expr.node().index.is_constant() ? expr.node().index.constant() : 0;
}

int64_t equal_part(int64_t count, int64_t most) {
  constexpr int64_t kVector = 16;
  for (int64_t part = most; part >= most / 2; part -= kVector)
    if (count > most && count % part == 0) return part;
  return 0;
}

static bool stores(const Statements& statements) {
  return std::any_of(statements.begin(), statements.end(), [](const Statement& statement) {
    return std::holds_alternative<Store>(statement.what) || (statement.body() && stores(*statement.body()));
  });
}

static int64_t part_of(const For& loop) {
  constexpr int64_t kLongRow = 2048;
  const int64_t count = number_of(loop.bound);
  const bool adds_up = loop.kind == LoopKind::Vector && loop.accumulator && loop.accumulator->op == ReduceOp::Sum;
  return adds_up && stores(loop.body) && !has_loop(loop.body) && count >= kLongRow ? equal_part(count, 512) : 0;
}

For in_parts(For loop, int64_t part) {
  const std::string first = loop.variable + "_part";
  For parts{.variable = first, .bound = loop.bound, .step = part, .most = loop.most / part};
  loop.first = name(first), loop.most = part;
  loop.bound = binary(name(first), "+", part);
  parts.body.push_back(std::move(loop));
  return parts;
}

void add_in_parts(Statements& statements) {
  for (Statement& statement : statements) {
    For* loop = std::get_if<For>(&statement.what);
    const int64_t part = loop ? part_of(*loop) : 0;
    if (part)
      statement = in_parts(std::move(*loop), part);
    else if (Statements* body = statement.body())
      add_in_parts(*body);
  }
}

}  // namespace weftc
