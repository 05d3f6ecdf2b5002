// Loops that only look for an extreme of a row, or add up, become calls.
#include "backend/row_calls.h"

#include <doctest/doctest.h>

#include "backend/dialects/target_dialect.h"

using namespace weftc;

namespace {

Statements row_of(ReduceOp op, int64_t count, Statements more = {}) {
  Statements body = {Let{"float", "twice", binary(element("x", name("c")), "*", 2)},
                     Reduce{op, name("best"), name("twice")}};
  append(body, std::move(more));
  return {Let{"float", "best", 0, true}, For{.kind = LoopKind::Vector,
                                             .variable = "c",
                                             .bound = count,
                                             .accumulator = For::Accumulator{op, "best"},
                                             .body = std::move(body)}};
}

std::string called(Statements row) {
  Statements statements = {For{.kind = LoopKind::Vector, .variable = "row", .bound = 8, .body = std::move(row)}};
  call_for_rows(statements);
  return joined_lines(lines_of(statements, host_dialect().loops()));
}

bool is_called(const std::string& text) { return text.find("_of<") != std::string::npos; }

}  // namespace

TEST_CASE("a loop that only looks for the largest element is a call, and the loop around it no vector loop") {
  CHECK(called(row_of(ReduceOp::Max, 100)) ==
        "for (int64_t row = 0; row < 8; ++row) {\n"
        "  const float best = weft::maximum_of<float>(100, [&](int64_t c) {\n"
        "    const float twice = x[c] * 2;\n"
        "    return twice;\n"
        "  });\n"
        "}\n");
  CHECK(called(row_of(ReduceOp::Min, 100)).find("weft::minimum_of<float>(100,") != std::string::npos);
}

TEST_CASE("so is one that only adds up floats or doubles") {
  CHECK(called(row_of(ReduceOp::Sum, 100)).find("const float best = weft::sum_of<float>(100,") != std::string::npos);
  Statements integers = row_of(ReduceOp::Sum, 100);
  std::get<Let>(integers[0].what).type = "int64_t";
  CHECK(!is_called(called(std::move(integers))));
}

TEST_CASE("one that adds up may store what it adds, in what was put in later too") {
  Later later;
  later.statements->push_back(Store{element("y_row", name("c")), name("twice")});
  const std::string text = called(row_of(ReduceOp::Sum, 100, {Store{element("y", name("c")), name("twice")}, later}));
  CHECK(text ==
        "for (int64_t row = 0; row < 8; ++row) {\n"
        "  const float best = weft::sum_of_stored<float>(100, [&](int64_t c) {\n"
        "    const float twice = x[c] * 2;\n"
        "    y[c] = twice;\n"
        "    y_row[c] = twice;\n"
        "    return twice;\n"
        "  });\n"
        "}\n");
}

TEST_CASE("near miss: short rows, products, maxima of what is stored, and accumulators of a loop further out") {
  CHECK(!is_called(called(row_of(ReduceOp::Max, 15))));
  CHECK(!is_called(called(row_of(ReduceOp::Sum, 15))));
  CHECK(!is_called(called(row_of(ReduceOp::Prod, 100))));
  CHECK(!is_called(called(row_of(ReduceOp::Max, 100, {Store{element("y", 0), name("twice")}}))));
  Statements inner = row_of(ReduceOp::Max, 100);
  inner.erase(inner.begin());
  CHECK(!is_called(called(std::move(inner))));
}
