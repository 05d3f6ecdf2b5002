// Sliced dimensions of run-time length. For any lengths of a request, the ranks compute the same from their blocks as
// one rank. This holds for the laid-out graph and for the Plan in any order of its steps.
#include "test/fixtures.h"
#include "test/passes/planned.h"

using namespace weftc;
using namespace weftc::test;

namespace {

using Lengths = std::map<std::string, int64_t>;

/// All requests up to the bounds: each name has each length from 1 on.
std::vector<Lengths> all_requests(const Schedule& schedule) {
  std::vector<Lengths> requests = {{}};
  for (const DimRequest& dim : schedule.dims) {
    std::vector<Lengths> longer;
    for (const Lengths& request : requests)
      for (int64_t length = 1; length <= dim.values[0]; ++length) {
        longer.push_back(request);
        longer.back()[dim.name] = length;
      }
    requests = std::move(longer);
  }
  return requests;
}

/// The input of a request, by the name of the port.
Tensor requested(const std::string& name, const TensorType& type, const Lengths& lengths) {
  TensorType local{type.dtype, type.shape, {}};
  for (Extent& e : local.shape)
    if (e.is_run_time()) e = {number_of(*e.length, lengths).value(), {}};
  return seeded_tensor(local, static_cast<uint32_t>(name.size() + 1));
}

std::vector<Tensor> requested_inputs(const Module& module, const Lengths& lengths) {
  std::vector<Tensor> inputs;
  for (ValueId v : module.graph.inputs())
    inputs.push_back(requested(module.graph.value(v).name, module.graph.type(v), lengths));
  return inputs;
}

void compare(const std::vector<Tensor>& found, const std::vector<Tensor>& wanted) {
  REQUIRE(found.size() == wanted.size());
  for (size_t i = 0; i < found.size(); ++i) {
    CAPTURE(i);
    REQUIRE(found[i].dims == wanted[i].dims);
    CHECK(relative_error(found[i], wanted[i]) < 2e-5);
  }
}

}  // namespace

TEST_CASE("sliced lengths: every request gives what one rank gives") {
  for (const char* name : {"sliced_requests", "sliced_sequence", "sequence_parallel_lengths"}) {
    CAPTURE(name);
    const Fixture fixture = read_fixture(name);
    const Planned made = plan_of(fixture.model, fixture.yaml);
    const auto laid = prepare(fixture.model, fixture.yaml, "apply-transforms");
    std::string dims = "weft: 1\ndims:\n";
    for (const DimRequest& dim : laid->schedule.dims) dims += format("  {}: \"<={}\"\n", dim.name, dim.values[0]);
    const auto one = prepare(fixture.model, dims, "decompose");
    uint32_t seed = 1;
    for (const Lengths& lengths : all_requests(laid->schedule)) {
      CAPTURE(lengths.begin()->second);
      CAPTURE(lengths.rbegin()->second);
      const EvalResult wanted = evaluate(*one->module, requested_inputs(*one->module, lengths));
      const EvalResult many = evaluate(*laid->module, requested_inputs(*laid->module, lengths));
      std::vector<Tensor> ports;
      for (const Port& port : made.plan.inputs) ports.push_back(requested(port.name, port.type, lengths));
      const PlanRun run = evaluate_plan(made.plan, ports, seed++);
      INFO(wanted.error << many.error << run.error);
      REQUIRE((wanted.error + many.error + run.error).empty());
      compare(many.outputs, wanted.outputs);
      compare(run.outputs, wanted.outputs);
    }
  }
}
