// Choices of what a training keeps for its backward pass: from all to little, each with the numbers of a step that
// keeps all.
#include "passes/prepare/kept_choices.h"

#include <algorithm>

#include "test/scheduled.h"

using namespace weftc;
using namespace weftc::test;

namespace {

constexpr int kDepth = 8;

/// Equal layers in sequence: r0 = x + act(x v0) w0, r1 = ...
std::string layers_of(const std::string& activation) {
  std::string weights, nodes;
  for (int l = 0; l < kDepth; ++l) {
    const std::string n = std::to_string(l), before = l ? "r" + std::to_string(l - 1) : "x";
    weights += "float[6, 8] v" + n + " = random(" + std::to_string(2 * l + 1) + ", 0.5), float[8, 6] w" + n +
               " = random(" + std::to_string(2 * l + 2) + ", 0.5), ";
    nodes += " f" + n + " = MatMul(" + before + ", v" + n + ") a" + n + " = Gelu(f" + n + ") " + "d" + n + " = " +
             activation + "(a" + n + ") p" + n + " = MatMul(d" + n + ", w" + n + ") r" + n + " = Add(" + before +
             ", p" + n + ")";
  }
  return "<ir_version: 10, opset_import: [\"\" : 20]> m (float[4, 6] x, float[4, 6] target) => (float[4, 6] y) <" +
         weights + "float unused = {1}> {" + nodes + " y = Identity(r" + std::to_string(kDepth - 1) + ") }";
}

std::string schedule_with(const std::string& recompute) {
  return "weft: 1\ntrain:\n  loss: {mean_squared_error: {predictions: y, targets: target}}\n"
         "  optimizer: {momentum: {rate: 0.1}}\n  recompute: " +
         recompute + "\n";
}

std::vector<KeptChoice> choices_of(const std::string& model) {
  const auto made = prepare(model, schedule_with("none"), "differentiate");
  REQUIRE_MESSAGE(made->ok(), made->diags.text());
  return kept_choices(*made->module);
}

/// Loss, rate and all next states of a step that keeps those values; of one that keeps all without.
std::vector<Tensor> step_that_keeps(const std::string& model, const std::optional<std::vector<std::string>>& kept) {
  Scheduled made;
  made.schedule = *read_schedule_text("s.yaml", schedule_with(kept ? "{limit: 1KiB}" : "none"), made.diags);
  if (kept) made.schedule.train->recompute->kept = kept;
  made.module = read_onnx_source(model, {"model.onnxtxt", {}, {}, {}}, made.diags, &made.schedule);
  RunOptions options;
  options.stop_after = "decompose";
  REQUIRE(run_pipeline(*made.module, {made.schedule, made.target, made.diags}, options, made.report));
  EvalResult result = evaluate(*made.module, seeded_inputs(*made.module));
  REQUIRE_MESSAGE(result.error.empty(), result.error);
  return result.outputs;
}

bool keeps(const KeptChoice& choice, const std::string& name) {
  return std::ranges::find(choice.kept, name) != choice.kept.end();
}

const std::string kTanhLayers = layers_of("Tanh"), kEluLayers = layers_of("Elu");

}  // namespace

TEST_CASE("choices compute more and more again, and are estimated to take less and less memory") {
  for (const std::string& model : {kTanhLayers, kEluLayers}) {
    const std::vector<KeptChoice> choices = choices_of(model);
    REQUIRE(choices.size() >= 6);
    CHECK(choices.size() <= 40);
    CHECK(choices[0].again == 0);
    for (size_t i = 1; i < choices.size(); ++i) {
      CHECK(choices[i].again >= choices[i - 1].again);
      CHECK(choices[i].peak < choices[i - 1].peak);
    }
    CHECK(choices.back().again < 1);
    CHECK(choices.back().bytes < choices[0].bytes / 3);
    CHECK(choices.back().peak < choices[0].peak / 2);
  }
}

TEST_CASE("a choice has the numbers of a step that keeps all") {
  for (const std::string& model : {kTanhLayers, kEluLayers}) {
    const std::vector<Tensor> wanted = step_that_keeps(model, {});
    for (const KeptChoice& choice : choices_of(model)) {
      const std::vector<Tensor> found = step_that_keeps(model, choice.kept);
      REQUIRE(found.size() == wanted.size());
      for (size_t o = 0; o < found.size(); ++o) CHECK(relative_error(found[o], wanted[o]) == 0);
    }
  }
}

TEST_CASE("of equal layers the first are computed again first") {
  bool is_any_between = false;
  const auto is_of_activation = [](const std::string& name) { return name[0] == 'a' || name[0] == 'd'; };
  for (const KeptChoice& choice : choices_of(kTanhLayers)) {
    if (std::ranges::any_of(choice.kept, is_of_activation)) continue;  // in place of what it is made of
    for (int l = 1; l < kDepth; ++l)
      CHECK((keeps(choice, "f" + std::to_string(l)) || !keeps(choice, "f" + std::to_string(l - 1))));
    is_any_between |= keeps(choice, "f" + std::to_string(kDepth - 1)) && !keeps(choice, "f0");
  }
  CHECK(is_any_between);
}

TEST_CASE("choices are the same each time") {
  const std::vector<KeptChoice> first = choices_of(kTanhLayers), second = choices_of(kTanhLayers);
  REQUIRE(first.size() == second.size());
  for (size_t i = 0; i < first.size(); ++i) CHECK(first[i].kept == second[i].kept);
}
