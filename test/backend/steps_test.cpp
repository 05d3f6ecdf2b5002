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
  CHECK(text("weft: 1\ndims: {past: \"<=8\"}\n").find("LengthLimit") == std::string::npos);
  CHECK(text("weft: 1\ndims: {past: \"<=8\"}\nstate: {m: n}\n")
            .find("{\"state 'm' ('n')\", [](const int64_t* n) { return n[0] + 1; }, 0, 8}") != std::string::npos);
}

TEST_CASE("steps: indices in memory are checked before a kernel looks them up, under the step's own node") {
  const auto text = [&](const std::string& body, const std::string& yaml = "") {
    Planned made = plan_of("<ir_version: 10, opset_import: [\"\" : 20]>\nm " + body, yaml);
    Diags diags;
    std::string all;
    for (const SourceFile& file : emit(made.plan, diags)) all += file.text;
    REQUIRE(diags.ok());
    return all;
  };
  const auto checks = [](const std::string& all) {
    size_t count = 0;
    for (size_t at = all.find("check_indices("); at != std::string::npos; at = all.find("check_indices(", at + 1))
      ++count;
    return count;
  };
  const std::string two = text(R"((int64[4] i, int64[4] j) => (float[4,8] a, float[4,8] b)
    <float[5,8] v = random(1, 0.5), float[5,8] w = random(2, 0.5)> {
    [first] a = Gather(v, i)
    [second] b = Gather(w, j)
  })");
  CHECK(two.find("r.check_indices(\"node 'first' (Gather)\", r[i], 4, 5);") != std::string::npos);
  CHECK(two.find("r.check_indices(\"node 'second' (Gather)\", r[j], 4, 5);") != std::string::npos);
  // Behind views and casts; once for two look-ups of the same length.
  CHECK(checks(text(R"((int32[2,2] i) => (float[4,8] c) <float[5,8] v = random(1, 0.5), float[5,8] w = random(2, 0.5),
    int64[1] s = {4}> {
    f = Reshape(i, s)
    l = Cast<to = 7>(f)
    a = Gather(v, l)
    b = Gather(w, l)
    c = Add(a, b)
  })")) == 1);
  // What another kernel computed stands in memory too.
  CHECK(checks(text(R"((int64[4] i) => (float[4,8] a) <float[5,8] v = random(1, 0.5), int64 one = {1}> {
    j = Add(i, one)
    a = Gather(v, j)
  })")) == 1);
  // Of run-time lengths as many as there are.
  const std::string open = "weft: 1\ndims: {n: \"<=8\", m: \"<=6\"}\n";
  CHECK(text("(int64[3,n] i, float[m,8] v) => (float[3,n,8] a) { [look] a = Gather(v, i) }", open)
            .find("r.check_indices(\"node 'look' (Gather)\", r[i], {3, {r[n]}}, {1, {r[m]}});") != std::string::npos);
  // Counter-case: a sum of lengths stands nowhere.
  CHECK(
      checks(text(
          "(int64[n] i, float[n,8] v, float[m,8] w) => (float[n,8] a) { t = Concat<axis = 0>(v, w) a = Gather(t, i) }",
          open)) == 0);
}
