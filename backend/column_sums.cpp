// Finds loops over columns among the statements of a nest.
#include "backend/column_sums.h"

#include <algorithm>

namespace weftc {

namespace {

/// Vectors of fewer columns are mostly empty, and ranges of fewer are no vectors.
constexpr int64_t kFewest = 8, kColumns = 16;

bool is_serial(LoopKind kind) { return kind == LoopKind::Serial || kind == LoopKind::Vector; }

bool is_plain(const Statement& statement) {
  return std::holds_alternative<Let>(statement.what) || std::holds_alternative<Store>(statement.what) ||
         std::holds_alternative<Reduce>(statement.what);
}

/// The one loop inside, if there is nothing else but plain statements.
For* only_loop(Statements& body) {
  For* only = nullptr;
  for (Statement& statement : body) {
    if (is_plain(statement)) continue;
    auto* loop = std::get_if<For>(&statement.what);
    if (!loop || only) return nullptr;
    only = loop;
  }
  return only;
}

/// Whether elements of neighbouring iterations of `outer` are neighbours, and those of `inner` lie apart.
bool runs_down_columns(const For& outer, const For& inner) {
  bool is_down = false, is_along = false;
  for_each_expression(inner.body, [&](const Expr& expr) {
    if (expr.node().kind != Expr::Node::Kind::Index) return;
    const Stride across = stride_of(expr.node().index, outer.variable),
                 down = stride_of(expr.node().index, inner.variable);
    const bool is_known = across.affine && down.affine && (across.coefficient == 0 || across.coefficient == 1);
    is_along |= !is_known || down.coefficient == 1;
    is_down |= across.coefficient == 1 && down.coefficient.is_number() && down.coefficient.number >= kFewest;
  });
  return is_down && !is_along;
}

bool take_together(For& outer) {
  For* inner = is_serial(outer.kind) ? only_loop(outer.body) : nullptr;
  if (!inner || !is_serial(inner->kind) || !std::all_of(inner->body.begin(), inner->body.end(), is_plain)) return false;
  if (!runs_down_columns(outer, *inner)) return false;
  outer.kind = LoopKind::Together;
  inner->kind = LoopKind::Serial;
  inner->accumulator.reset();
  return true;
}

/// Whether a loop directly among the statements was changed.
bool take_in(Statements& statements) {
  bool is_changed = false;
  for (Statement& statement : statements) {
    auto* loop = std::get_if<For>(&statement.what);
    if (loop && take_together(*loop)) {
      is_changed = true;
    } else if (Statements* body = statement.body()) {
      auto* tasks = std::get_if<TeamTasks>(&statement.what);
      if (take_in(*body) && tasks) tasks->grain = (tasks->grain + kColumns - 1) / kColumns * kColumns;
    }
  }
  return is_changed;
}

}  // namespace

void take_columns_together(Statements& nest) { take_in(nest); }

}  // namespace weftc
