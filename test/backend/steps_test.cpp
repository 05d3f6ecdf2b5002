// The text of steps: what a program says of itself at run time.
#include "backend/emit.h"
#include "test/passes/planned.h"

using namespace weftc;
using namespace weftc::test;

TEST_CASE("steps: a length beyond its bound is said of the state that grows, else of the output") {
  const std::string model = R"(<ir_version: 10, opset_import: ["" : 20]>
m (float[past,4] m, float[1,4] k) => (float[total,4] n) { n = Concat<axis = 0>(m, k) })";
  const auto text = [&](const std::string& yaml) {
    Planned made = plan_of(model, yaml);
    Diags diags;
    std::string all;
    for (const SourceFile& file : emit(made.plan, diags)) all += file.text;
    REQUIRE(diags.ok());
    return all;
  };
  CHECK(text("weft: 1\ndims: {past: \"<=8\"}\n").find("check_count(\"'n'\", ") != std::string::npos);
  CHECK(text("weft: 1\ndims: {past: \"<=8\"}\nstate: {m: n}\n").find("check_count(\"state 'm' ('n')\", ") !=
        std::string::npos);
}
