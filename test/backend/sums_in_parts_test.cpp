// Loops that add up, cut into parts.
#include "backend/sums_in_parts.h"

#include <doctest/doctest.h>

#include "backend/dialects/target_dialect.h"

using namespace weftc;

namespace {

std::string in_parts(ReduceOp op, int64_t count, Statements more = {}) {
  Statements body = {Reduce{op, name("sum"), element("x", index_variable("c", 0, count - 1))}};
  append(body, std::move(more));
  Statements statements = {For{.kind = LoopKind::Vector,
                               .variable = "c",
                               .bound = count,
                               .accumulator = For::Accumulator{op, "sum"},
                               .body = std::move(body)}};
  add_in_parts(statements);
  return joined_lines(lines_of(statements, host_dialect().loops()));
}

bool is_cut(const std::string& text) { return text.find("c_part") != std::string::npos; }

}  // namespace

TEST_CASE("a very long loop that adds up and stores is cut into equal parts of whole vectors") {
  const Statements store = {Store{element("y", 0), name("sum")}};
  CHECK(in_parts(ReduceOp::Sum, 4096, store) ==
        "for (int64_t c_part = 0; c_part < 4096; c_part += 512) {\n"
        "#pragma omp simd reduction(+ : sum)\n"
        "  for (int64_t c = c_part; c < c_part + 512; ++c) {\n"
        "    sum += x[c];\n"
        "    y[0] = sum;\n"
        "  }\n"
        "}\n");
  CHECK(in_parts(ReduceOp::Sum, 2240, store).find("c_part += 448") != std::string::npos);
}

TEST_CASE("near miss: shorter or odd rows, maxima, and loops that store nothing are not cut") {
  const Statements store = {Store{element("y", 0), name("sum")}};
  CHECK(!is_cut(in_parts(ReduceOp::Sum, 1024, store)));
  CHECK(!is_cut(in_parts(ReduceOp::Sum, 4097, store)));
  CHECK(!is_cut(in_parts(ReduceOp::Max, 4096, store)));
  CHECK(!is_cut(in_parts(ReduceOp::Sum, 4096)));
}
