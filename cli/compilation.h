// What one compilation has made so far, handed from stage to stage.
#pragma once
#include "ir/plan.h"
#include "ir/schedule.h"
#include "passes/runner.h"

namespace weftc {

/// It stays where it is: the plan refers to the module's constants.
struct Compilation {
  Schedule schedule;
  Module module;
  Target target;
  RunReport passes;
  Plan plan;
};

}  // namespace weftc
