// A pass: one function Module -> Module, one row of the table in pipeline.cpp.
#pragma once
#include <optional>
#include <span>
#include <vector>

#include "ir/module.h"
#include "ir/schedule.h"
#include "ir/target.h"
#include "ir/verify.h"

namespace weftc {

struct OpLayouts;

/// Assumptions that tests let transforms make where a rule refuses, so that the rule can be compared with evaluation.
/// In the compiler this is null, and the rules decide.
struct UncheckedRules {
  /// The state in which a result carries an axis on where the rule gives no state; nothing where it cannot have one.
  std::optional<AxisState> (*carried)(const Graph& graph, const Op& op, size_t result, int axis,
                                      const std::vector<Layout>& arriving);
  /// The layouts of an op when a slice of one result is wanted and the rule gives no layouts.
  OpLayouts (*cut)(const Graph& graph, const Op& op, size_t result, int axis, AxisState state, OpLayouts settled);
};

/// All that a pass may read besides the module.
struct Env {
  const Schedule& schedule;
  const Target& target;
  Diags& diags;
  const UncheckedRules* unchecked = nullptr;
};

/// A row of the pipeline.
struct Pass {
  const char* name;   // also the file, --print-ir-after, --stop-after and the test folder
  const char* after;  // the condition that holds afterwards
  void (*run)(Module&, const Env&);
  Form form;  // the verifier checks it afterwards
};

/// The compiler's middle, in order.
std::span<const Pass> pipeline();

}  // namespace weftc
