// The compiler as one function per stage, for every verb that reads a model.
#pragma once
#include <memory>

#include "cli/compilation.h"
#include "cli/options.h"

namespace weftc {

/// Reads schedule and model and runs the passes, up to `--stop-after`. Null after reporting.
std::unique_ptr<Compilation> compile_graph(const Options& options, Diags& diags);
/// Continues a compilation that stopped before or after the transforms. The new schedule differs from the old only in
/// transforms.
std::unique_ptr<Compilation> compile_graph_on(const Compilation& stopped, const Options& options, Diags& diags);
/// The same without the schedule's entries about ranks, chunks, transforms and kernels.
std::unique_ptr<Compilation> compile_graph_for_one_rank(const Options& options, Diags& diags, const Compilation& like);
/// Makes and proves the plan of the graph, and writes it to the folder of --dump-dir. False after reporting.
bool compile_plan(Compilation& compilation, const Options& options, Diags& diags);
/// The bytes of the fullest rank of a plan, which limits of memory apply to.
int64_t needed_bytes(const Plan& plan);
/// Makes the executable, or the folder of sources. Returns the exit code, after reporting.
int compile_program(const Compilation& compilation, const Options& options, Diags& diags);

/// The plans of all variants that the dims request, which share nothing yet. Empty after reporting the first variant
/// that fails. A variant that stopped after a pass has no plan.
CompiledVariants compile_variants(const Options& options, Diags& diags);
/// Merges the data that the variants share, and proves their plans. False after reporting.
bool check_variants(CompiledVariants& variants, const Options& options, Diags& diags);
/// Makes one executable or folder of sources of all of them.
int compile_program(const CompiledVariants& variants, const Options& options, Diags& diags);

}  // namespace weftc
