// Transforms that a search may try for a schedule: what `tune` runs, and `plan` predicts.
#pragma once
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cli/compilation.h"
#include "cli/options.h"
#include "passes/transform/transform_candidates.h"

namespace weftc {

/// A schedule with steps behind its own; nothing after reporting.
using TextWithSteps = std::function<std::optional<std::string>(const std::vector<TransformStep>&, Diags&)>;

/// The graph in front of the transforms of the schedule, without a word. Nothing after reporting.
std::unique_ptr<Compilation> compile_before_transforms(const Options& options, Diags& diags);
/// And behind them: `before` is that of a schedule that says the same of everything else.
std::unique_ptr<Compilation> compile_transforms(const Options& options, const Compilation& before, Diags& diags);

/// All legal transforms of a collective behind steps that are chosen already, which each candidate begins with: that
/// without further ones first. `module` is the graph behind the chosen ones, `before` that in front of all.
std::vector<Candidate> legal_transforms(const Options& options, const Module& module, const std::string& collective,
                                        const std::vector<int>& chunks, const std::vector<TransformStep>& chosen,
                                        const TextWithSteps& text_with, const Compilation& before);

}  // namespace weftc
