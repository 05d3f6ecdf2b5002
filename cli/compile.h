// The compiler as one function a stage: what every verb that looks at a model calls.
#pragma once
#include <memory>

#include "cli/compilation.h"
#include "cli/options.h"

namespace weftc {

/// Schedule, model, passes; up to `--stop-after`. Nothing after reporting.
std::unique_ptr<Compilation> compile_graph(const Options& options, Diags& diags);
/// The same from a graph on at which a compilation stopped, in front of the transforms or behind them: the schedule
/// says the same of everything but these.
std::unique_ptr<Compilation> compile_graph_on(const Compilation& stopped, const Options& options, Diags& diags);
/// The same with nothing of the schedule that concerns ranks, chunks, transforms or kernels.
std::unique_ptr<Compilation> compile_graph_for_one_rank(const Options& options, Diags& diags, const Compilation& like);
/// And the plan of the graph, proved, and in the folder of --dump-dir. False after reporting.
bool compile_plan(Compilation& compilation, const Options& options, Diags& diags);
/// What the fullest rank of a plan needs: what limits of memory are about.
int64_t needed_bytes(const Plan& plan);
/// And the executable, or the folder of sources. The exit code, after reporting.
int compile_program(const Compilation& compilation, const Options& options, Diags& diags);

/// The plans of all variants that the dims ask for, which share nothing yet. Nothing after reporting the first variant
/// that breaks; one that stopped after a pass has no plan.
CompiledVariants compile_variants(const Options& options, Diags& diags);
/// Lays together what the variants share, and proves their plans. False after reporting.
bool check_variants(CompiledVariants& variants, const Options& options, Diags& diags);
/// And one executable or folder of sources of all of them.
int compile_program(const CompiledVariants& variants, const Options& options, Diags& diags);

}  // namespace weftc
