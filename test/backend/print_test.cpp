// Trees of statements and expressions as C++ of both dialects.
#include <doctest/doctest.h>

#include "backend/dialects/target_dialect.h"

using namespace weftc;

namespace {

std::string text(const Statements& statements, const TargetDialect& dialect = host_dialect()) {
  return joined_lines(lines_of(statements, dialect.loops()));
}

For sum_loop(LoopKind kind, Statements body) {
  return For{.kind = kind,
             .variable = "c",
             .bound = 64,
             .accumulator = For::Accumulator{ReduceOp::Sum, "sum"},
             .body = std::move(body)};
}

const Statement kAdd = Reduce{ReduceOp::Sum, name("sum"), element("x", index_variable("c", 0, 63))};

}  // namespace

TEST_CASE("operands are put in parentheses where they bind more loosely than their place") {
  const Expr a = name("a"), b = name("b"), c = name("c");
  CHECK(text_of(binary(binary(a, "+", b), "*", c)) == "(a + b) * c");
  CHECK(text_of(binary(a, "+", binary(b, "*", c))) == "a + b * c");
  CHECK(text_of(binary(binary(a, "-", b), "-", c)) == "a - b - c");
  CHECK(text_of(binary(a, "-", binary(b, "-", c))) == "a - (b - c)");
  CHECK(text_of(all_of({binary(a, "<", b), choice(a, b, c)})) == "a < b && (a ? b : c)");
  CHECK(text_of(choice(a, b, choice(b, c, a))) == "a ? b : b ? c : a");
  CHECK(text_of(pattern("$0 / (1 + $0)", {binary(a, "+", b)}, Binding::Choice)) == "(a + b) / (1 + (a + b))");
}

TEST_CASE("an index expression binds as the sum or product that it is") {
  const IndexExpr i = index_variable("i", 0, 9), j = index_variable("j", 0, 9);
  CHECK(text_of(element("x", i * 10 + j)) == "x[i * 10 + j]");
  CHECK(text_of(binary(i * 10 + j, "%", 4)) == "(i * 10 + j) % 4");
  CHECK(text_of(binary(i * 10, "%", 4)) == "i * 10 % 4");
  CHECK(text_of(call("f", {i * 10 + j, 0})) == "f(i * 10 + j, 0)");
  CHECK(text_of(address("x", i * 10 + 4)) == "x + i * 10 + 4");
  CHECK(text_of(address("x", 0)) == "x");
}

TEST_CASE("a vector loop has its pragma on the host, but not around another loop") {
  CHECK(text({sum_loop(LoopKind::Vector, {kAdd})}) ==
        "#pragma omp simd reduction(+ : sum)\n"
        "for (int64_t c = 0; c < 64; ++c) {\n"
        "  sum += x[c];\n"
        "}\n");
  const For inner{.variable = "k", .bound = name("n"), .body = {kAdd}};
  CHECK(text({sum_loop(LoopKind::Vector, {inner})}) ==
        "for (int64_t c = 0; c < 64; ++c) {\n"
        "  for (int64_t k = 0; k < n; ++k) {\n"
        "    sum += x[c];\n"
        "  }\n"
        "}\n");
  CHECK(text({sum_loop(LoopKind::Vector, {kAdd})}, cuda_dialect()) ==
        "for (int64_t c = 0; c < 64; ++c) {\n"
        "  sum += x[c];\n"
        "}\n");
}

TEST_CASE("on a device the threads that share a loop take its iterations in turn") {
  const std::pair<LoopKind, std::string> kinds[] = {
      {LoopKind::Threads, "for (int64_t c = weft::thread(); c < 64; c += weft::threads()) {"},
      {LoopKind::Warps, "for (int64_t c = weft::warp(); c < 64; c += weft::warps()) {"},
      {LoopKind::Blocks, "for (int64_t c = blockIdx.x; c < 64; c += gridDim.x) {"},
      {LoopKind::Lanes, "for (int64_t c = weft::lane(); c < 64; c += 32) {"},
      {LoopKind::BlockThreads, "for (int64_t c = threadIdx.x; c < 64; c += blockDim.x) {"},
  };
  for (const auto& [kind, head] : kinds)
    CHECK(text({sum_loop(kind, {kAdd})}, cuda_dialect()) == head + "\n  sum += x[c];\n}\n");
  CHECK(text({OneLane{LoopKind::Lanes, {Store{element("y", 0), name("sum")}}}}, cuda_dialect()) ==
        "if (weft::lane() == 0) y[0] = sum;\n");
}

TEST_CASE("a team takes ranges of tasks, whole rows of them in runs") {
  const For row{.variable = "c", .bound = name("end"), .first = name("begin"), .body = {kAdd}};
  CHECK(text({TeamTasks{.count = binary(name("rows"), "*", 8), .grain = 2, .body = {row}}}) ==
        "team.parallel(rows * 8, 2, [=](int64_t begin, int64_t end) {\n"
        "  for (int64_t c = begin; c < end; ++c) {\n"
        "    sum += x[c];\n"
        "  }\n"
        "});\n");
  CHECK(text({TeamRuns{.run = 64, .body = {kAdd}}}) ==
        "for (int64_t task = begin, next; task < end; task = next) {\n"
        "  const int64_t first = task % 64;\n"
        "  next = std::min(end, task - first + 64);\n"
        "  sum += x[c];\n"
        "}\n");
}

TEST_CASE("a condition stands on the line of the assignments that it guards, and before braces otherwise") {
  const Expr inside = binary(name("i"), "<", 4);
  CHECK(text({If{inside, {Store{name("best"), name("x")}, Store{name("at"), name("i")}}}}) ==
        "if (i < 4) best = x, at = i;\n");
  CHECK(text({If{inside, {Let{"float", "y", name("x")}}}}) == "if (i < 4) {\n  const float y = x;\n}\n");
}

TEST_CASE("a function gives an expression, whose indices are found like any other") {
  const IndexExpr at = index_variable("i", 0, 63) * 4 + 1;
  const Statements statements = {Return{element("x", at)}};
  CHECK(text(statements) == "return x[i * 4 + 1];\n");
  int indices = 0;
  for_each_expression(statements, [&](const Expr& expr) {
    indices += expr.node().kind == Expr::Node::Kind::Index && expr.node().index == at;
  });
  CHECK(indices == 1);
}

TEST_CASE("what is kept for later is written where it was offered, and only if it was asked for") {
  const Later unused, used;
  const Statements statements = {unused, used, sum_loop(LoopKind::Serial, {kAdd, used})};
  CHECK(!has_declaration(statements));
  used.statements->push_back(Let{"int", "x", 0});
  CHECK(has_declaration(statements));
  CHECK(text({unused, used}) == "const int x = 0;\n");
  CHECK(has_loop(statements));
  CHECK(!has_loop({unused, used}));
}
