// The inputs and results of transforms; refusals are tested in test/bad_input/transform.
#include "test/scheduled.h"

using namespace weftc;
using namespace weftc::test;

namespace {

/// A product whose sum is split into rows `rs` and `ag`, and what follows it.
std::string model(const std::string& tail) {
  return "<ir_version: 10, opset_import: [\"\" : 20]>\nm (float[8,4] x) => (float[8,4] y) <float[4,8] v = random(1, "
         "1.0), float[8,4] w = random(2, 1.0), float[4] s = random(3, 1.0), float[1,4] t = random(4, 1.0)> {\n"
         "[up] h = MatMul(x, v)  [down] p = MatMul(h, w)  " +
         tail + "}";
}

std::string schedule(const std::string& steps) {
  return "weft: 1\nmesh: {tp: 2}\nshard: {v: {tp: 1}, w: {tp: 0}}\ntransform:\n"
         "  - split: {op: down.sum, dim: 0, into: [rs, ag]}\n" +
         steps;
}

/// The layout of the value of that name, as text.
std::string layout_of(const Scheduled& made, const std::string& value) {
  const Graph& graph = made.module->graph;
  const ValueId v = graph.find_value(value);
  return layout_text(graph.type(v).layout, made.module->mesh(graph, graph.producer_op(v).place));
}

void check_reordered(const std::string& tail, const std::string& past) {
  const std::string yaml = schedule("  - reorder: {gather: ag, past: [" + past + "]}\n");
  CAPTURE(tail);
  const auto made = prepare(model(tail), yaml, "apply-transforms");
  INFO(made->diags.text());
  REQUIRE(made->ok());
  CHECK(layout_of(*made, "y") == "[tp: S(0,4)]");
  CHECK(collectives_text(*made->module) == "AllGather 1, ReduceScatter 1");
  CHECK(error_against_one_rank(model(tail), yaml, "apply-transforms") < 2e-5);
}

}  // namespace

TEST_CASE("a gather moves past nodes of many parts, whose constants stay") {
  check_reordered("[norm] y = LayerNormalization(p, s)", "norm");
  check_reordered("[norm] y = LayerNormalization(p, s, s)", "norm");
  check_reordered("[soft] y = Softmax(p)", "soft");
  check_reordered("[act] y = Gelu(p)", "act");
  check_reordered("[norm] n = RMSNormalization(p, s)  [res] y = Add(n, p)", "norm, res");
}

TEST_CASE("views of other operands stay where they are") {
  check_reordered("[turn] r = Transpose<perm = [1, 0]>(t)  [flat] q = Flatten<axis = 0>(r)  [bias] y = Add(p, q)",
                  "bias");
}

TEST_CASE("one gather, product and normalisation run in chunks as one kernel each") {
  const std::string yaml = schedule(
      "  - reorder: {gather: ag, past: [norm]}\n  - fuse: {ops: [rs, norm, ag], into: far}\n"
      "  - overlap: {ops: [down, far], chunks: 2, dim: 0}\n");
  CHECK(error_against_one_rank(model("[norm] y = LayerNormalization(p, s)"), yaml, "apply-transforms") < 2e-5);
}

TEST_CASE("names that a step makes are as they are written, for each {l}") {
  const std::string yaml =
      "weft: 1\nmesh: {tp: 2}\nshard: {v: {tp: 1}, w: {tp: 0}}\ntransform:\n"
      "  - split: {op: \"{l}own.sum\", dim: 0, into: [\"rs{l}\", \"ag{l}\"]}\n";
  const auto made = prepare(model("y = Neg(p)"), yaml, "apply-transforms");
  INFO(made->diags.text());
  REQUIRE(made->ok());
  CHECK(made->module->graph.find_op("rsd"));
  CHECK(made->module->graph.find_op("agd"));
}

TEST_CASE("names follow what earlier steps and instances made and removed") {
  const std::string tail = "[norm] y = LayerNormalization(p, s)";
  const std::string fused = "  - reorder: {gather: ag, past: [norm]}\n  - fuse: {ops: [rs, norm, ag], into: ";
  CHECK(prepare(model(tail), schedule(fused + "down.sum}\n"), "apply-transforms")->ok());
  const auto gone = prepare(model(tail), schedule(fused + "far}\n  - fuse: {ops: [rs], into: again}\n"), "");
  REQUIRE(!gone->ok());
  CHECK(gone->diags.all()[0].id == "selector-inside");
  CHECK(gone->diags.all()[0].message == "'rs' lies inside what an earlier step made, 'far' (Fused): name that");

  const auto taken = prepare(
      "<ir_version: 10, opset_import: [\"\" : 20]>\nm (float[8,4] x) => (float[8,4] y, float[8,4] z) "
      "<float[4,4] v = random(1, 1.0), float[4,4] w = random(2, 1.0)> {[a0] y = MatMul(x, v)  [a1] z = MatMul(x, w)}",
      "weft: 1\nmesh: {tp: 2}\nshard: {v: {tp: 0}, w: {tp: 0}}\ntransform:\n"
      "  - split: {op: \"a{l}.sum\", dim: 0, into: [rs, \"ag{l}\"]}\n",
      "");
  REQUIRE(!taken->ok());
  CHECK(taken->diags.all()[0].message.find("'rs' is already the name of an op (ReduceScatter)") == 0);
}

TEST_CASE("what became of a weight that was folded twice is where it ended") {
  const auto made = prepare(
      "<ir_version: 10, opset_import: [\"\" : 20]>\nm (float[4] x) => (float[4] y) <float[4] a = {1, 2, 3, 4}, "
      "float[4] "
      "b = {1, 1, 1, 1}> {\nc = Mul(a, b)  d = Neg(c)  y = Add(x, d)}",
      "weft: 1\nmesh: {tp: 2}\nshard: {a: {tp: 0}}\n", "");
  REQUIRE(!made->ok());
  CHECK(made->diags.all()[0].id == "selector-folded");
  CHECK(made->diags.all()[0].message.find("'a' was folded into 'd'") == 0);
}

TEST_CASE("a value that nothing reads was removed, one that another is equal to stands for it") {
  const auto sliced = [](const std::string& value) {
    const auto made = prepare(
        "<ir_version: 10, opset_import: [\"\" : 20]>\nm (float[4] x) => (float[4] y) { [unused] u = Exp(x)  [one] a = "
        "Neg(x)  [two] b = Neg(x)  [sum] y = Add(a, b) }",
        "weft: 1\nmesh: {tp: 2}\nshard: {" + value + ": {tp: 0}}\n", "");
    REQUIRE(!made->ok());
    return made->diags.all()[0].message;
  };
  CHECK(sliced("u") == "nothing reads value 'u': it was removed");
  CHECK(sliced("unused") == "nothing reads what node 'unused' (Exp) makes: it was removed");
  CHECK(sliced("b") == "'b' was folded into 'a' when the model was compiled: it is no value of its own any more");
}

TEST_CASE("on one rank, steps that name what several ranks exchange are left out and warned of") {
  const std::string text = model("[bias] b = Add(p, s)  [act] y = Relu(b)");
  const auto yaml = [](const char* ranks, const char* last) {
    return "weft: 1\nmesh: {tp: " + std::string(ranks) +
           "}\nshard: {v: {tp: 1}, w: {tp: 0}}\ntransform:\n  - split: {op: down.sum, dim: 0, into: [rs, ag]}\n"
           "  - fuse: {ops: [rs, bias, act, ag], into: far}\n  - " +
           last + "\n";
  };
  const auto one = prepare(text, yaml("1", "fuse: {ops: [bias, act], into: tail}"), "apply-transforms");
  INFO(one->diags.text());
  REQUIRE(one->ok());
  REQUIRE(one->diags.all().size() == 2);
  for (const Diagnostic& d : one->diags.all()) CHECK(d.id == "transform-one-rank");
  CHECK(one->module->transforms.size() == 1);
  CHECK(one->diags.all()[1].loc.line == 6);
  const auto mistaken = prepare(text, yaml("1", "fuse: {ops: [far, bais], into: tail}"), "apply-transforms");
  REQUIRE(!mistaken->ok());
  CHECK(mistaken->diags.text().find("'bais' matches no node") != std::string::npos);
}
