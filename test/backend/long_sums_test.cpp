// Sums of very many floats, which are added up in double.
#include "backend/long_sums.h"

#include <doctest/doctest.h>

#include "backend/dialects/target_dialect.h"
#include "backend/print.h"
#include "backend/row_calls.h"

using namespace weftc;

namespace {

For loop_of(const std::string& variable, int64_t count, Statements body, LoopKind kind = LoopKind::Serial) {
  For loop{.kind = kind, .variable = variable, .bound = count, .most = count, .body = std::move(body)};
  if (kind == LoopKind::Vector) loop.accumulator = For::Accumulator{ReduceOp::Sum, "sum"};
  return loop;
}

const Statement kAddition = Reduce{ReduceOp::Sum, name("sum"), element("x", name("c"))};

std::string widened(For loop, bool has_vectors = true, const std::string& type = "float", Statements after = {}) {
  Statements statements = {Let{type, "sum", literal(type + "(0)"), true}, std::move(loop)};
  append(statements, std::move(after));
  widen_long_sums({}, has_vectors, statements);
  return joined_lines(lines_of(statements, host_dialect().loops()));
}

bool is_widened(const std::string& text) { return text.find("double") != std::string::npos; }

}  // namespace

TEST_CASE("the sums of an inner loop are added up in double") {
  CHECK(widened(loop_of("r", 300, {loop_of("c", 20, {kAddition}, LoopKind::Vector)})) ==
        "double sum_total = 0;\n"
        "for (int64_t r = 0; r < 300; ++r) {\n"
        "  float sum_part = 0;\n"
        "#pragma omp simd reduction(+ : sum_part)\n"
        "  for (int64_t c = 0; c < 20; ++c) {\n"
        "    sum_part += x[c];\n"
        "  }\n"
        "  sum_total += sum_part;\n"
        "}\n"
        "const float sum = float(sum_total);\n");
}

TEST_CASE("where there is no loop inside, or one that is too short or too long, the elements are") {
  CHECK(widened(loop_of("c", 300, {kAddition})) ==
        "double sum_total = 0;\n"
        "for (int64_t c = 0; c < 300; ++c) {\n"
        "  sum_total += x[c];\n"
        "}\n"
        "const float sum = float(sum_total);\n");
  for (const int64_t inner : {4, 1000}) {
    const std::string text = widened(loop_of("r", 300, {loop_of("c", inner, {kAddition})}));
    CHECK(text.find("sum_total += x[c]") != std::string::npos);
  }
}

TEST_CASE("a row loop in braces becomes no call: its braces go, or its sum is widened") {
  const For loop = loop_of("c", 5000, {kAddition}, LoopKind::Vector);
  Statements alone = {Let{"float", "sum", literal("float(0)"), true}, Braces{{loop}}};
  Statements among = {Let{"float", "sum", literal("float(0)"), true}, Braces{{Let{"float", "y", 1}, loop}}};
  for (Statements* statements : {&alone, &among}) {
    bare_vector_loops(*statements);
    widen_long_sums({}, true, *statements);
  }
  CHECK(std::holds_alternative<For>(alone.back().what));
  CHECK(!is_widened(joined_lines(lines_of(alone, host_dialect().loops()))));
  CHECK(is_widened(joined_lines(lines_of(among, host_dialect().loops()))));
}

TEST_CASE("a sum that is stored to later stays one that may be, and names do not clash") {
  const std::string text =
      widened(loop_of("c", 300, {kAddition}), false, "float",
              {Store{name("sum"), call("weft::warp_sum", {name("sum")})}, Let{"float", "sum_total", 1}});
  CHECK(text.find("\nfloat sum = float(sum_total_2);") != std::string::npos);
}

TEST_CASE("near miss: few elements, other types, and what becomes a call for a row stay") {
  CHECK(!is_widened(widened(loop_of("c", 90, {kAddition}))));
  CHECK(!is_widened(widened(loop_of("c", 5000, {kAddition}), true, "int64_t")));
  CHECK(!is_widened(widened(loop_of("c", 5000, {kAddition}, LoopKind::Vector))));
  CHECK(is_widened(widened(loop_of("c", 5000, {kAddition}, LoopKind::Vector), false)));
}
