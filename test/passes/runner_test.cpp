// The runner: what it reports of the passes that it ran.
#include "passes/runner.h"

#include "ir/base/check.h"
#include "test/scheduled.h"

using namespace weftc;
using namespace weftc::test;

TEST_CASE("runner: the graph that is not of its form is reported with the others") {
  const auto made = prepare(R"(<ir_version: 8, opset_import: ["" : 20]>
m (float[4,8] x) => (float[4,8] y) { y = Softmax(x) })",
                            "", "infer-types");
  REQUIRE(made->ok());
  // The passes after it cannot make up for it.
  const RunOptions options{.print_after = {"lower-precision"}, .stop_after = "", .skip = {"decompose"}};
  RunReport report;
  CHECK_THROWS_AS(run_pipeline(*made->module, {made->schedule, made->target, made->diags}, options, report),
                  InternalError);
  CHECK(report.running == "lower-precision");
  REQUIRE(!report.passes.empty());
  CHECK(report.passes.back().name == "lower-precision");
  CHECK(report.passes.back().printed.find("Softmax") != std::string::npos);
}
