// A pass: one function Module -> Module, one row of the table in pipeline.cpp.
#pragma once
#include <span>

#include "ir/module.h"
#include "ir/schedule.h"
#include "ir/target.h"
#include "ir/verify.h"

namespace weftc {

/// All that a pass may look at beside the module.
struct Env {
  const Schedule& schedule;
  const Target& target;
  Diags& diags;
  /// Tests only: transforms are applied although their rule refuses, so that the rule can be held against evaluation.
  bool unchecked = false;
};

struct Pass {
  const char* name;   // also the file, --print-ir-after, --stop-after and the test folder
  const char* after;  // what holds afterwards
  void (*run)(Module&, const Env&);
  Form form;  // what the verifier checks afterwards
};

/// The compiler's middle, in order.
std::span<const Pass> pipeline();

}  // namespace weftc
