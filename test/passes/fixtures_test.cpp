// The fixtures of test/fixtures: each is laid out and transformed, survives its text form, and evaluates on N virtual
// ranks to what one rank computes.
#include "test/fixtures.h"

#include "ir/text/text_form.h"
#include "passes/plan/make_plan.h"
#include "passes/proof/prove_plan.h"
#include "test/effort.h"
#include "test/scheduled.h"

using namespace weftc;
using namespace weftc::test;

namespace {

/// The settings that change what is computed, without mesh, places and layouts.
std::string one_rank_schedule(const Schedule& schedule) {
  std::string yaml = "weft: 1\nannotations: none\nseed: " + std::to_string(schedule.seed) + "\n";
  for (const StateRequest& s : schedule.states)
    yaml += (yaml.find("state:") == std::string::npos ? "state:\n" : "") + ("  " + s.input + ": " + s.output) + "\n";
  for (const DimRequest& d : schedule.dims)
    yaml += (yaml.find("dims:") == std::string::npos ? "dims:\n" : "") +
            ("  " + d.name + ": \"" + (d.bounded ? "<=" : "")) + std::to_string(d.values[0]) + "\"\n";
  return yaml;
}

/// A state that grows starts with length 0; what stays as long as it is has the length of other inputs.
void start_empty(const Module& module, const State& state, std::vector<Tensor>& inputs) {
  const auto& values = module.graph.inputs();
  Shape next;
  for (const Graph::Output& output : module.graph.outputs())
    if (output.name == state.output) next = module.graph.type(output.value).shape;
  for (size_t i = 0; i < values.size(); ++i) {
    if (module.graph.value(values[i]).name != state.input) continue;
    TensorType type = module.graph.type(values[i]);
    for (size_t d = 0; d < type.shape.size(); ++d)
      if (Extent& e = type.shape[d]; e.is_run_time()) e = {e == next[d] ? e.bound : 0, {}};
    inputs[i] = seeded_tensor(type, 1);
  }
}

/// The text of the module says all of it.
void check_text_form(const std::string& name, const Module& module) {
  const std::string printed = print_module(module);
  Diags diags;
  const std::optional<Module> parsed = parse_module(name, printed, diags);
  INFO(diags.text());
  REQUIRE(parsed);
  CHECK(print_module(*parsed) == printed);
}

/// The module of several ranks computes the same as the model on one.
void check_values(const Fixture& fixture, const Scheduled& many) {
  const auto one = prepare(fixture.model, one_rank_schedule(many.schedule), "decompose");
  INFO(one->diags.text());
  REQUIRE(one->ok());
  std::vector<Tensor> inputs = seeded_inputs(*one->module);
  for (const State& state : one->module->states) start_empty(*one->module, state, inputs);
  const int invocations = many.module->states.empty() ? 1 : 3;
  const auto a = evaluate_invocations(*many.module, std::vector(invocations, inputs));
  const auto b = evaluate_invocations(*one->module, std::vector(invocations, inputs));
  for (size_t run = 0; run < a.size(); ++run) {
    INFO(a[run].error << b[run].error << print_module(*many.module));
    REQUIRE(a[run].error.empty());
    REQUIRE(b[run].error.empty());
    for (size_t i = 0; i < a[run].outputs.size(); ++i)
      CHECK(relative_error(a[run].outputs[i], b[run].outputs[i]) < 2e-5);
  }
}

}  // namespace

TEST_CASE("fixtures evaluate on N ranks as on one, in `full` after each of three passes") {
  const std::vector<const char*> forms = {"apply-layouts", "apply-transforms", "fuse-regions"};
  for (const std::string& name : fixture_names(false)) {
    CAPTURE(name);
    const Fixture fixture = read_fixture(name);
    for (uint32_t form = 0; form < forms.size(); ++form) {
      CAPTURE(forms[form]);
      const auto many = prepare(fixture.model, fixture.yaml, forms[form]);
      INFO(many->diags.text());
      REQUIRE(many->ok());
      check_text_form(name, *many->module);
      const bool means_something_alone = !many->module->per_rank;
      if (means_something_alone && (is_full() || turn_of(name, 3) == form)) check_values(fixture, *many);
    }
  }
}

TEST_CASE("fixtures are planned and proved for both targets") {
  for (const std::string& name : fixture_names(false)) {
    CAPTURE(name);
    const Fixture fixture = read_fixture(name);
    const auto made = prepare(fixture.model, fixture.yaml, "");
    INFO(made->diags.text());
    REQUIRE(made->ok());
    for (const Target& target : {Target{}, cuda_target({"sm_90"})}) {
      const std::optional<Plan> plan = make_plan(*made->module, target, made->diags);
      INFO(made->diags.text());
      REQUIRE(plan);
      const std::vector<std::string> wrong = prove_plan(*plan);
      INFO(join(wrong, "\n"));
      CHECK(wrong.empty());
    }
  }
}

TEST_CASE("fixtures that must fail name their rule") {
  for (const std::string& name : fixture_names(true)) {
    CAPTURE(name);
    const Fixture fixture = read_fixture(name);
    const size_t open = fixture.yaml.find('['), close = fixture.yaml.find(']');
    const std::string id = fixture.yaml.substr(open + 1, close - open - 1);
    const auto made = prepare(fixture.model, fixture.yaml, "");
    INFO(made->diags.text());
    CHECK(!made->diags.ok());
    CHECK(made->diags.text().find("[" + id + "]") != std::string::npos);
  }
}
