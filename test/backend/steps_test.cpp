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

TEST_CASE("steps: indices are checked before what a kernel looks up, under the step's own node") {
  const auto text = [&](const std::string& body, const std::string& yaml = "") {
    Planned made = plan_of("<ir_version: 10, opset_import: [\"\" : 20]>\nm " + body, yaml);
    Diags diags;
    std::string all;
    for (const SourceFile& file : emit(made.plan, diags)) all += file.text;
    REQUIRE(diags.ok());
    return all;
  };
  const auto demands = [](const std::string& all) {
    std::vector<std::string> extents;
    for (size_t at = all.find(".demand("); at != std::string::npos; at = all.find(".demand(", at + 1)) {
      const size_t first = all.find(", ", at) + 2;
      extents.push_back(all.substr(first, all.find(')', first) - first));
    }
    return extents;
  };
  using Extents = std::vector<std::string>;
  // Two layers share a kernel, which is told whose indices they are.
  const std::string two = text(R"((int64[4] i, int64[4] j) => (float[4,8] a, float[4,8] b)
    <float[5,8] v = random(1, 0.5), float[5,8] w = random(2, 0.5)> {
    [first] a = Gather(v, i)
    [second] b = Gather(w, j)
  })");
  CHECK(two.find("r.indices_of(\"node 'first' (Gather)\"), r[v], r[i], r[a])") != std::string::npos);
  CHECK(two.find("r.indices_of(\"node 'second' (Gather)\"), r[w], r[j], r[b])") != std::string::npos);
  CHECK(demands(two) == Extents{"5"});
  // The kernel's own computation; the lengths of a request, also as a sum.
  const std::string open = "weft: 1\ndims: {n: \"<=8\", m: \"<=6\"}\n";
  CHECK(demands(
            text("(int64[4] i) => (float[8,8] a) <float[5,8] v = random(1, 0.5), int64 one = {1}> { j = Concat<axis = "
                 "0>(i, i) a = Gather(v, j) }")) == Extents{"5"});
  CHECK(demands(text("(int64[3,n] i, float[m,8] v) => (float[3,n,8] a) { a = Gather(v, i) }", open)) == Extents{"m"});
  CHECK(
      demands(text(
          "(int64[n] i, float[n,8] v, float[m,8] w) => (float[n,8] a) { t = Concat<axis = 0>(v, w) a = Gather(t, i) }",
          open)) == Extents{"m_plus_n"});
  // Each dimension that an entry has an index for.
  CHECK(demands(text("(float[4,5,6] x, int64[3,2] i, float[3,6] u) => (float[4,5,6] y) { y = ScatterND(x, i, u) }")) ==
        Extents{"4", "5"});
  // Once for two look-ups of the same length, also after views and casts.
  CHECK(demands(text(R"((int32[2,2] i) => (float[4,8] c) <float[5,8] v = random(1, 0.5), float[5,8] w = random(2, 0.5),
    int64[1] s = {4}> {
    f = Reshape(i, s)
    l = Cast<to = 7>(f)
    a = Gather(v, l)
    b = Gather(w, l)
    c = Add(a, b)
  })")) == Extents{"5"});
  // Counter-case: constants, which the compiler has looked at.
  CHECK(demands(text("(float[5,8] w) => (float[3,8] y) <int64[3] i = {4, -5, 0}> { y = Gather(w, i) }")) == Extents{});
}
