// One function per verb: prints its results on standard output and returns the exit code.
#pragma once
#include "cli/options.h"
#include "ir/base/diag.h"

namespace weftc {

int run_compile(const Options& options);
/// With --auto, it plans a schedule first.
int run_compile_or_plan(const Options& options);
int run_inspect(const Options& options);
int run_explain(const Options& options);
int run_export(const Options& options);
int run_trace(const Options& options);
int run_log(const Options& options);
int run_verify(const Options& options);
int run_solve(const Options& options);
int run_tune(const Options& options);
int run_profile(const Options& options);
int run_plan(const Options& options);
int run_machine_profile(const Options& options);
int run_verify_many(const Options& options);
int run_ops(const Options& options);
int run_doctor(const Options& options);

/// Prints the messages on standard error and returns their exit code.
int finish(const Diags& diags);

}  // namespace weftc
