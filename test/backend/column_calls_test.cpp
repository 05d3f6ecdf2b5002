// Loops that add up a column for each of several results become calls.
#include "backend/column_calls.h"

#include <doctest/doctest.h>

#include "backend/dialects/target_dialect.h"
#include "backend/print.h"

using namespace weftc;

namespace {

std::string called(ReduceOp op, Statements before = {}, const std::string& type = "float") {
  Statements body = std::move(before);
  body.push_back(Let{type, "sum", 0, true});
  body.push_back(For{.variable = "c",
                     .bound = 300,
                     .body = {Reduce{op, name("sum"), binary(element("x", name("c")), "*", name("scale"))}}});
  body.push_back(Store{element("y", name("row")), name("sum")});
  Statements statements = {For{.kind = LoopKind::Together,
                               .variable = "row",
                               .bound = name("end"),
                               .first = name("begin"),
                               .body = std::move(body)}};
  const bool is_called = call_for_columns({}, statements);
  const std::string text = joined_lines(lines_of(statements, host_dialect().loops()));
  CHECK(is_called == (text.find("sum_columns") != std::string::npos));
  return text;
}

}  // namespace

TEST_CASE("a loop over columns that are added up is a call, with what its columns share in both lambdas") {
  CHECK(called(ReduceOp::Sum, {Let{"float", "scale", element("s", name("row"))}}) ==
        "const auto sum_term = [&](int64_t row, int64_t c) {\n"
        "  const float scale = s[row];\n"
        "  return x[c] * scale;\n"
        "};\n"
        "weft::sum_columns<float>(begin, end, 300, sum_term, [&](int64_t row, float sum) {\n"
        "  const float scale = s[row];\n"
        "  y[row] = sum;\n"
        "});\n");
}

TEST_CASE("near miss: maxima, integers, and columns with two loops stay loops") {
  CHECK(called(ReduceOp::Max).find("sum_columns") == std::string::npos);
  CHECK(called(ReduceOp::Sum, {}, "int64_t").find("sum_columns") == std::string::npos);
  const Statement first = For{.variable = "k", .bound = 3, .body = {Store{element("z", name("k")), 1}}};
  CHECK(called(ReduceOp::Sum, {first}).find("sum_columns") == std::string::npos);
}
