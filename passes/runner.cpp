// One loop over the table of passes. It prints the graph after cleanup.
#include "passes/runner.h"

#include <algorithm>
#include <chrono>

#include "ir/base/check.h"
#include "ir/base/contains.h"
#include "ir/text/text_form.h"

namespace weftc {

static double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

/// A graph that is not of the promised form is a bug of the pass.
static void check_form(const Module& module, const Pass& pass) {
  const std::vector<std::string> wrong = verify(module, pass.form);
  if (wrong.empty()) return;
  std::string text = format("after pass {} the graph is not {}:", pass.name, form_name(pass.form));
  for (size_t i = 0; i < std::min<size_t>(wrong.size(), 10); ++i) text += "\n  " + wrong[i];
  WEFT_CHECK(false, text);
}

static bool wants_print(const RunOptions& options, const Pass& pass) {
  return options.keep_all || contains(options.print_after, pass.name);
}

bool run_pipeline(Module& module, const Env& env, const RunOptions& options, RunReport& report) {
  bool is_done = !options.start_after.empty();
  for (const Pass& pass : pipeline()) {
    if (is_done) {
      is_done = options.start_after != pass.name;
      continue;
    }
    if (std::find(options.skip.begin(), options.skip.end(), pass.name) != options.skip.end()) continue;
    report.running = pass.name;
    const auto start = std::chrono::steady_clock::now();
    pass.run(module, env);
    if (!env.diags.ok()) return false;
    clean_up(module);
    PassReport row{pass.name, seconds_since(start), module.graph.op_count(), ""};
    if (wants_print(options, pass)) row.printed = print_module(module);
    // The row comes first: the graph of a pass that breaks its form is shown too.
    report.passes.push_back(std::move(row));
    check_form(module, pass);
    if (options.stop_after == pass.name) {
      report.stopped = true;
      return true;
    }
  }
  return true;
}

}  // namespace weftc
