#include "backend/long_sums.h"

#include <algorithm>

#include "backend/row_calls.h"
#include "backend/sums_in_parts.h"

namespace weftc {

namespace {

/// Additions that one accumulator of floats may do in sequence. Lanes of a vector, warp or block have sums of their
/// own, whose errors partly cancel.
constexpr int64_t kMostInTurn = 96;

/// The loops between the declaration of an accumulator and its additions, outer first.
struct SumLoops {
  struct Level {
    Statements* among;  // the statements that hold the loop
    size_t at;
    For& loop() const { return std::get<For>((*among)[at].what); }
  };
  std::vector<Level> levels;
  std::vector<Reduce*> additions;
};

bool names_it(const Expr& expr, const std::string& name) {
  return !expr.empty() && expr.node().kind == Expr::Node::Kind::Simple && expr.node().text == name;
}

/// Finds additions to `name` at and inside a statement.
void find_additions(Statements& among, size_t at, const std::string& name, std::vector<SumLoops::Level> above,
                    SumLoops& found) {
  Statement& statement = among[at];
  if (Reduce* reduce = std::get_if<Reduce>(&statement.what); reduce && names_it(reduce->into, name)) {
    found.levels = above;
    found.additions.push_back(reduce);
  }
  if (std::holds_alternative<For>(statement.what)) above.push_back({&among, at});
  if (Statements* body = statement.body())
    for (size_t i = 0; i < body->size(); ++i) find_additions(*body, i, name, above, found);
}

/// Number of threads, or lanes of a warp, that share the iterations.
int64_t takers_of(LoopKind kind) { return kind == LoopKind::Lanes ? 32 : kind == LoopKind::BlockThreads ? 256 : 1; }

/// Number of iterations of one thread that shares a loop.
int64_t turns_of(const For& loop) {
  constexpr int64_t kUnknown = int64_t{1} << 20;
  const int64_t most = loop.most ? loop.most : number_of(loop.bound) ? number_of(loop.bound) : kUnknown;
  const int64_t takers = takers_of(loop.kind);
  return std::max<int64_t>(1, (most + takers - 1) / takers);
}

/// How many additions of an inner loop depend on each other. Vector loops of the host have a sum for each lane, eight
/// or more, and its calls for rows sum in parts themselves.
constexpr int64_t kLanes = 8;
int64_t inner_in_turn(const For& loop, bool has_vectors) {
  if (has_vectors && becomes_row_call(loop)) return 1;
  return has_vectors && loop.kind == LoopKind::Vector && loop.accumulator ? turns_of(loop) / kLanes : turns_of(loop);
}

/// The same over all loops. The lanes of a vector are added to the accumulator one after the other.
int64_t in_turn(const SumLoops& sum, bool has_vectors) {
  int64_t outer = 1;
  for (size_t i = 0; i + 1 < sum.levels.size(); ++i)
    outer = std::min(outer * turns_of(sum.levels[i].loop()), int64_t{1} << 40);
  const For& innermost = sum.levels.back().loop();
  const int64_t inner = turns_of(innermost);
  const bool is_vector = has_vectors && innermost.kind == LoopKind::Vector && innermost.accumulator;
  return is_vector ? outer * (std::min(inner, kLanes) + inner % kLanes) + inner / kLanes : outer * inner;
}

bool is_float_sum(const Let& let, const SumLoops& sum) {
  const bool starts_at_zero = is_number(let.value, 0) || names_it(let.value, "float(0)");
  return let.type == "float" && let.is_mutable && starts_at_zero && sum.additions.size() == 1 &&
         sum.additions.front()->op == ReduceOp::Sum && !sum.levels.empty();
}

void add_to(SumLoops& sum, const std::string& accumulator) {
  sum.additions.front()->into = name(accumulator);
  for (const SumLoops::Level& level : sum.levels)
    if (For& loop = level.loop(); loop.accumulator) loop.accumulator->name = accumulator;
}

/// Gives the innermost loop an accumulator of its own.
void add_by_parts(SumLoops& sum, const std::string& total, const std::string& part) {
  add_to(sum, part);
  const SumLoops::Level inner = sum.levels.back();
  const auto at = inner.among->begin() + static_cast<int64_t>(inner.at);
  inner.among->insert(at + 1, Reduce{ReduceOp::Sum, name(total), name(part)});
  inner.among->insert(inner.among->begin() + static_cast<int64_t>(inner.at), Let{"float", part, 0, true});
}

bool stores_to(const Statements& statements, const std::string& name) {
  return std::any_of(statements.begin(), statements.end(), [&](const Statement& statement) {
    const Store* store = std::get_if<Store>(&statement.what);
    return (store && names_it(store->to, name)) || (statement.body() && stores_to(*statement.body(), name));
  });
}

class Widening {
 public:
  Widening(Names names, bool has_vectors) : names_(std::move(names)), has_vectors_(has_vectors) {}

  void widen(Statements& statements) {
    for (Statement& statement : statements)
      if (Statements* body = statement.body()) widen(*body);
    for (size_t i = 0; i < statements.size(); ++i)
      if (const Let* let = std::get_if<Let>(&statements[i].what)) widen_sum(statements, i, *let);
  }

 private:
  /// Whether a loop has enough iterations for an accumulator of its own, and not too many for a float accumulator.
  bool is_worth_part(const For& loop) const {
    const int64_t least = loop.kind == LoopKind::Unrolled ? 2 : 16;
    return turns_of(loop) >= least && inner_in_turn(loop, has_vectors_) <= kMostInTurn;
  }
  /// Widens the sum declared by statement number `declared`.
  void widen_sum(Statements& statements, size_t declared, Let let) {
    for (size_t i = declared + 1; i < statements.size(); ++i) {
      SumLoops sum;
      find_additions(statements, i, let.name, {}, sum);
      if (sum.additions.empty()) continue;
      if (!is_float_sum(let, sum) || is_called(statements, sum) || in_turn(sum, has_vectors_) <= kMostInTurn) return;
      const std::string total = names_.unique(let.name + "_total");
      if (sum.levels.size() > 1 && is_worth_part(sum.levels.back().loop()))
        add_by_parts(sum, total, names_.unique(let.name + "_part"));
      else
        add_to(sum, total);
      const bool is_mutable = stores_to(statements, let.name);
      statements[declared] = Let{"double", total, 0, true};
      statements.insert(statements.begin() + static_cast<int64_t>(i) + 1,
                        Let{"float", let.name, call("float", {name(total)}), is_mutable});
      return;
    }
  }
  /// True for a loop that becomes a call of weft/row_sums.h, which takes sums in parts itself.
  bool is_called(const Statements& beside, const SumLoops& sum) const {
    const bool is_beside = sum.levels.size() == 1 && sum.levels.front().among == &beside;
    return has_vectors_ && is_beside && becomes_row_call(sum.levels.front().loop());
  }

  Names names_;
  const bool has_vectors_;
};

void reserve_declared(const Statements& statements, Names& names) {
  for (const Statement& statement : statements) {
    if (const Let* let = std::get_if<Let>(&statement.what)) names.reserve(let->name);
    if (const LocalArray* array = std::get_if<LocalArray>(&statement.what)) names.reserve(array->name);
    if (const For* loop = std::get_if<For>(&statement.what)) names.reserve(loop->variable);
    if (const Statements* body = statement.body()) reserve_declared(*body, names);
  }
}

}  // namespace

Names names_in(Names names, const Statements& statements) {
  reserve_declared(statements, names);
  return names;
}

void widen_long_sums(const Names& names, bool has_vectors, Statements& statements) {
  Widening(names_in(names, statements), has_vectors).widen(statements);
}

}  // namespace weftc
