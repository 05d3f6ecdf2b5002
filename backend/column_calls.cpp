#include "backend/column_calls.h"

#include <algorithm>

#include "backend/long_sums.h"
#include "backend/print.h"
#include "backend/row_calls.h"

namespace weftc {

namespace {

/// The parts of a loop over columns.
struct ColumnLoop {
  Statements before;  // declarations shared by all elements of a column
  Let accumulator;
  For rows;
  Statements after;
};

template <class T>
bool is(const Statement& statement) {
  return std::holds_alternative<T>(statement.what);
}

bool is_constant(const Statement& statement) {
  const Let* let = std::get_if<Let>(&statement.what);
  return let && !let->is_mutable;
}

/// True for a loop that only adds up elements, from the first one on.
bool only_adds(const For& loop, const std::string& accumulator) {
  const Statements body = all_of_body(loop.body);
  if (body.empty() || !is_number(loop.first, 0) || !is_number(loop.step, 1)) return false;
  const Reduce* reduce = std::get_if<Reduce>(&body.back().what);
  return reduce && reduce->op == ReduceOp::Sum && text_of(reduce->into) == accumulator &&
         std::all_of(body.begin(), body.end() - 1, is_constant);
}

/// The parts of a loop; nothing if it has other statements.
std::optional<ColumnLoop> parts_of(const For& loop) {
  const Statements body = all_of_body(loop.body);
  const auto rows = std::find_if(body.begin(), body.end(), is<For>);
  if (loop.kind != LoopKind::Together || rows == body.begin() || rows == body.end()) return {};
  const Let* accumulator = std::get_if<Let>(&(rows - 1)->what);
  if (!accumulator || (accumulator->type != "float" && accumulator->type != "double")) return {};
  ColumnLoop parts{.before = {}, .accumulator = *accumulator, .rows = std::get<For>(rows->what), .after = {}};
  parts.before.assign(body.begin(), rows - 1);
  parts.after.assign(rows + 1, body.end());
  const bool is_plain = std::all_of(parts.before.begin(), parts.before.end(), is_constant);
  if (!is_plain || !only_adds(parts.rows, accumulator->name) || has_loop(parts.after)) return {};
  return parts;
}

/// The element in a row of a column, as a lambda.
Callback element_lambda(const ColumnLoop& parts, const std::string& column, const std::string& lambda) {
  Callback made{
      .head = "const auto " + lambda + " = [&](int64_t " + column + ", int64_t " + parts.rows.variable + ") {",
      .body = parts.before,
      .close = "};"};
  for (Statement& statement : all_of_body(parts.rows.body))
    if (const Reduce* reduce = std::get_if<Reduce>(&statement.what))
      made.body.push_back(Return{reduce->value});
    else
      made.body.push_back(std::move(statement));
  return made;
}

/// The call, with a lambda that uses each sum as its last argument.
Callback sums_call(const ColumnLoop& parts, const For& loop, const std::string& lambda) {
  const Let& sum = parts.accumulator;
  const Expr put = name("[&](int64_t " + loop.variable + ", " + sum.type + " " + sum.name + ") {");
  std::string head = text_of(
      call("weft::sum_columns<" + sum.type + ">", {loop.first, loop.bound, parts.rows.bound, name(lambda), put}));
  head.pop_back();
  Callback made{.head = head, .body = parts.before};
  append(made.body, parts.after);
  return made;
}

void call_in(Statements& statements, Names& names, bool& has_calls) {
  for (size_t i = 0; i < statements.size(); ++i) {
    const For* loop = std::get_if<For>(&statements[i].what);
    const std::optional<ColumnLoop> parts = loop ? parts_of(*loop) : std::nullopt;
    if (parts) {
      const std::string lambda = names.unique(parts->accumulator.name + "_term");
      Callback call = sums_call(*parts, *loop, lambda);
      Callback term = element_lambda(*parts, loop->variable, lambda);
      statements[i] = std::move(call);
      statements.insert(statements.begin() + static_cast<int64_t>(i++), std::move(term));
      has_calls = true;
    } else if (Statements* body = statements[i].body()) {
      call_in(*body, names, has_calls);
    }
  }
}

}  // namespace

bool call_for_columns(const Names& names, Statements& statements) {
  Names all = names_in(names, statements);
  bool has_calls = false;
  call_in(statements, all, has_calls);
  return has_calls;
}

}  // namespace weftc
