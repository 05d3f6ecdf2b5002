// Loops that only add up, cut into parts.
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

TEST_CASE("a long loop that only adds up is cut into equal parts of whole vectors") {
  CHECK(in_parts(ReduceOp::Sum, 768) ==
        "for (int64_t c_part = 0; c_part < 768; c_part += 256) {\n"
        "#pragma omp simd reduction(+ : sum)\n"
        "  for (int64_t c = c_part; c < c_part + 256; ++c) {\n"
        "    sum += x[c];\n"
        "  }\n"
        "}\n");
  CHECK(in_parts(ReduceOp::Sum, 640).find("c_part += 160") != std::string::npos);
}

TEST_CASE("a very long loop that stores as well is cut into larger parts") {
  const Statements store = {Store{element("y", 0), name("sum")}};
  CHECK(in_parts(ReduceOp::Sum, 4096, store).find("c_part += 512") != std::string::npos);
  CHECK(!is_cut(in_parts(ReduceOp::Sum, 1024, store)));
  CHECK(!is_cut(in_parts(ReduceOp::Sum, 4097, store)));
}

TEST_CASE("near miss: short or odd rows, maxima, and loops that store are not cut") {
  CHECK(!is_cut(in_parts(ReduceOp::Sum, 256)));
  CHECK(!is_cut(in_parts(ReduceOp::Sum, 1000)));
  CHECK(!is_cut(in_parts(ReduceOp::Max, 768)));
  CHECK(!is_cut(in_parts(ReduceOp::Sum, 768, {Store{element("y", 0), name("sum")}})));
}
