#include "backend/sums_in_parts.h"

#include <algorithm>

namespace weftc {

/// The number of an expression that is one; 0 for any other.
static int64_t number_of(const Expr& expr) {
  if (expr.empty() || expr.node().kind != Expr::Node::Kind::Index) return 0;
  return expr.node().index.is_constant() ? expr.node().index.constant() : 0;
}

/// How many elements a part of `count` has: whole vectors, enough of them that adding up the vector at its end is
/// little work. 0 where there is no such number, or one part would be all.
static int64_t part_of(int64_t count) {
  constexpr int64_t kMost = 256, kLeast = 128, kVector = 16;
  for (int64_t part = kMost; part >= kLeast; part -= kVector)
    if (count > kMost && count % part == 0) return part;
  return 0;
}

/// A loop that stores as well has work to do while it waits.
static bool only_adds(const For& loop) {
  return loop.kind == LoopKind::Vector && loop.accumulator && loop.accumulator->op == ReduceOp::Sum &&
         std::all_of(loop.body.begin(), loop.body.end(), [](const Statement& statement) {
           const bool is_sum =
               std::holds_alternative<Let>(statement.what) || std::holds_alternative<Reduce>(statement.what);
           return is_sum || (statement.body() && statement.body()->empty());
         });
}

static For in_parts(For loop, int64_t part) {
  const std::string first = loop.variable + "_part";
  For parts{.variable = first, .bound = loop.bound, .step = part};
  loop.first = name(first);
  loop.bound = binary(name(first), "+", part);
  parts.body.push_back(std::move(loop));
  return parts;
}

void add_in_parts(Statements& statements) {
  for (Statement& statement : statements) {
    For* loop = std::get_if<For>(&statement.what);
    const int64_t part = loop && only_adds(*loop) ? part_of(number_of(loop->bound)) : 0;
    if (part)
      statement = in_parts(std::move(*loop), part);
    else if (Statements* body = statement.body())
      add_in_parts(*body);
  }
}

}  // namespace weftc
