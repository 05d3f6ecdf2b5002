// Random graphs with random layouts on 2 to 4 virtual ranks: what every rank computes assembles to the one-rank result
// (L3).
#include <cstdlib>

#include "test/passes/random_model.h"

using namespace weftc;
using namespace weftc::test;

namespace {

std::unique_ptr<Scheduled> run_random(uint32_t seed, bool scheduled, const char* stop_after) {
  Dice dice(seed);
  auto made = std::make_unique<Scheduled>();
  made->module = RandomModel(dice, 3 + dice.roll(8)).take();
  if (scheduled) made->schedule = random_schedule(dice, *made->module);
  RunOptions options;
  options.stop_after = stop_after;
  run_pipeline(*made->module, {made->schedule, made->target, made->diags}, options, made->report);
  return made;
}

/// Layouts that cannot be met together (a slice inside another that does not divide it) are refused, which is right.
bool is_refused_request(const Diags& diags) {
  for (const Diagnostic& d : diags.all())
    if (d.severity == Diagnostic::Severity::Error && d.id != "shard-indivisible" && d.id != "shard-illegal" &&
        d.id != "selector-unmatched" && d.id != "selector-folded" && d.id != "selector-unread" && d.id != "shard-twice")
      return false;
  return true;
}

}  // namespace

TEST_CASE("random graphs with random layouts agree with one rank") {
  const char* wanted = std::getenv("WEFT_RANDOM_GRAPHS");
  const uint32_t graphs = wanted ? static_cast<uint32_t>(std::atoi(wanted)) : 2000;
  int compared = 0, refused = 0;
  for (uint32_t seed = 1; seed <= graphs; ++seed) {
    CAPTURE(seed);
    const auto many = run_random(seed, true, "apply-layouts");
    if (!many->diags.ok()) {
      INFO(many->diags.text());
      REQUIRE(is_refused_request(many->diags));
      ++refused;
      continue;
    }
    const auto one = run_random(seed, false, "decompose");
    const std::vector<Tensor> inputs = seeded_inputs(*one->module);
    const EvalResult a = evaluate(*many->module, inputs), b = evaluate(*one->module, inputs);
    INFO(a.error << b.error);
    REQUIRE(a.error.empty());
    REQUIRE(b.error.empty());
    for (size_t i = 0; i < a.outputs.size(); ++i) {
      if (!agree(a.outputs[i], b.outputs[i])) MESSAGE(print_module(*many->module));
      REQUIRE(agree(a.outputs[i], b.outputs[i]));
    }
    ++compared;
  }
  MESSAGE("compared " << compared << ", refused " << refused);
  CHECK(compared * 10 > static_cast<int>(graphs) * 7);
}
