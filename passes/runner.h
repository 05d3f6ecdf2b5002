// Runs the pipeline: cleanup, form check, timing and dumps after every pass, so that no pass does these itself.
#pragma once
#include <string>
#include <vector>

#include "passes/pass.h"

namespace weftc {

struct RunOptions {
  std::vector<std::string> print_after;  // pass names; their graphs go to `printed`
  std::string stop_after;                // last pass to run; empty: all
  std::string start_after = {};          // the last pass that has already run on the module; empty: none
  bool keep_all = false;                 // print after every pass (--dump-dir)
  std::vector<std::string> skip;         // passes that the graph is right without
};
/// Time and result of one pass.
struct PassReport {
  std::string name;
  double seconds = 0;
  size_t ops = 0;
  std::string printed;
};
struct RunReport {
  std::vector<PassReport> passes;
  bool stopped = false;  // by stop_after
  std::string running;   // the last pass that began
};

/// False after reporting an error. A graph that is not of the promised form is an InternalError naming the pass.
bool run_pipeline(Module& module, const Env& env, const RunOptions& options, RunReport& report);

/// Removes ops without readers and merges equal ones (joining origins), in all regions. The runner calls it between
/// passes.
void clean_up(Module& module);

}  // namespace weftc
