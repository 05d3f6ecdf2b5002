// Transforms that a search may try for a schedule: `tune` runs them, and `plan` predicts them.
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

/// Appends steps to a schedule's own steps; nullopt after reporting.
using TextWithSteps = std::function<std::optional<std::string>(const std::vector<TransformStep>&, Diags&)>;

/// Compiles the graph before the transforms of the schedule, without output. Null after reporting.
std::unique_ptr<Compilation> compile_before_transforms(const Options& options, Diags& diags);
/// Compiles the graph after them. `before` comes from a schedule that differs only in transforms.
std::unique_ptr<Compilation> compile_transforms(const Options& options, const Compilation& before, Diags& diags);

/// All legal transforms of a collective after the chosen steps, with which each candidate begins. The first candidate
/// has no further steps. `module` is the graph after the chosen steps, `before` the graph before all steps.
std::vector<Candidate> legal_transforms(const Options& options, const Module& module, const std::string& collective,
                                        const std::vector<int>& chunks, const std::vector<TransformStep>& chosen,
                                        const TextWithSteps& text_with, const Compilation& before);

}  // namespace weftc
