// The modifiers of FlexAttention become nodes around it.
#include <doctest/doctest.h>

#include "reading.h"

using namespace weftc;

static ReadModel read_attention(const std::string& nodes) {
  return read_graph("(float[1,2,3,4] q, float[1,2,3,3] t) => (float[1,2,3,4] y) { " + nodes + " }");
}

TEST_CASE("modifiers read what is outside, and their own values get the attention's name in front") {
  const ReadModel read = read_attention(
      "[f] y = ai.onnx.preview.FlexAttention <"
      "score_mod = a (float[1,2,3,3] s) => (float[1,2,3,3] r) <float half = {0.5}> { t2 = Add(s, t)  r = Mul(t2, half) "
      "}, "
      "prob_mod = b (float[1,2,3,3] s) => (float[1,2,3,3] s) { }> (q, q, q)");
  REQUIRE_MESSAGE(read.module, read.diags.text());
  CHECK(shown(read.module->graph) ==
        "q = Input()\nt = Input()\nf/scores = AttentionScores(q, q)\nf/score_mod/t2 = Add(f/scores, t)\n"
        "f/score_mod/half = Constant()\nf/score_mod/r = Mul(f/score_mod/t2, f/score_mod/half)\n"
        "f/probabilities = Softmax(f/score_mod/r)\ny = AttentionMix(f/probabilities, q)\n");
}

TEST_CASE("subgraphs in a modifier are renamed, and two attentions have values of their own") {
  const std::string modifier =
      "<score_mod = a (float[1,2,3,3] s) => (float[1,2,3,3] r) { c = Greater(s, t)  r = If(c) <then_branch = x () => "
      "(float[1,2,3,3] z) { z = Neg(s) }, else_branch = w () => (float[1,2,3,3] z) { z = Relu(t) }> }> ";
  const ReadModel read = read_attention("[f] h = ai.onnx.preview.FlexAttention " + modifier +
                                        "(q, q, q) [g] y = ai.onnx.preview.FlexAttention " + modifier + "(h, q, q)");
  REQUIRE_MESSAGE(read.module, read.diags.text());
  const std::string text = shown(read.module->graph);
  CHECK(text.find("f/score_mod/z = Neg(f/scores)") != std::string::npos);
  CHECK(text.find("g/score_mod/z = Neg(g/scores)") != std::string::npos);
  CHECK(text.find("g/score_mod/r = If(g/score_mod/c, ") != std::string::npos);
}

TEST_CASE("attentions that cannot be unfolded") {
  const auto refusal = [](const std::string& nodes) {
    const ReadModel read = read_attention(nodes);
    CHECK(!read.module);
    return read.diags.all()[0].id;
  };
  CHECK(refusal("y = ai.onnx.preview.FlexAttention (q, q)") == "attention-operands");
  CHECK(refusal("y = ai.onnx.preview.FlexAttention <score_mod = a (float s, float r) => (float s) { }> (q, q, q)") ==
        "attention-modifier");
}
