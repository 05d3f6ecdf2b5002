// Compares the results of a step of training before and after a pass.
#pragma once
#include <map>
#include <string>

#include "test/passes/planned.h"

namespace weftc::test {

/// The outputs of the first step after the passes up to `stop_after`, by name.
inline std::map<std::string, Tensor> step_of(const std::string& model, const std::string& yaml,
                                             const std::string& stop_after) {
  const auto made = prepare(model, yaml, stop_after);
  INFO(made->diags.text());
  REQUIRE(made->ok());
  EvalResult result = evaluate(*made->module, seeded_inputs(*made->module));
  REQUIRE(result.error.empty());
  std::map<std::string, Tensor> outputs;
  for (size_t o = 0; o < result.outputs.size(); ++o)
    outputs.emplace(made->module->graph.outputs()[o].name, std::move(result.outputs[o]));
  return outputs;
}

/// A step of the training has the same results after the pass as after the schedule's transforms.
inline void check_same_step(const std::string& model, const std::string& yaml, const std::string& pass) {
  const auto plain = step_of(model, yaml, "apply-transforms"), changed = step_of(model, yaml, pass);
  REQUIRE(plain.size() == changed.size());
  for (const auto& [name, wanted] : plain) {
    CAPTURE(name);
    const Tensor& found = changed.at(name);
    REQUIRE(found.dims == wanted.dims);
    for (int64_t i = 0; i < wanted.size(); ++i) CHECK(found.at(i) == doctest::Approx(wanted.at(i)).epsilon(1e-6));
  }
}

}  // namespace weftc::test
