#include "cli/transform_trials.h"

#include "cli/compile.h"

namespace weftc {

namespace {

Options quiet_until(const Options& options, const char* pass) {
  Options until = options;
  until.stop_after = pass, until.quiet = true;
  return until;
}

}  // namespace

std::unique_ptr<Compilation> compile_before_transforms(const Options& options, Diags& diags) {
  return compile_graph(quiet_until(options, "fold-weights"), diags);
}

std::unique_ptr<Compilation> compile_transforms(const Options& options, const Compilation& before, Diags& diags) {
  return compile_graph_on(before, quiet_until(options, "apply-transforms"), diags);
}

std::vector<Candidate> legal_transforms(const Options& options, const Module& module, const std::string& collective,
                                        const std::vector<int>& chunks, const std::vector<TransformStep>& chosen,
                                        const TextWithSteps& text_with, const Compilation& before) {
  const auto after_chosen = [&](const std::vector<TransformStep>& steps) {
    std::vector<TransformStep> all = chosen;
    all.insert(all.end(), steps.begin(), steps.end());
    return all;
  };
  const IsLegal is_legal = [&](const std::vector<TransformStep>& steps) {
    Diags refused;
    const std::optional<std::string> text = text_with(after_chosen(steps), refused);
    return text && compile_transforms(with_schedule(options, *text), before, refused) != nullptr;
  };
  std::vector<Candidate> candidates = transform_candidates(module, collective, chunks, is_legal);
  for (Candidate& candidate : candidates) candidate.steps = after_chosen(candidate.steps);
  return candidates;
}

}  // namespace weftc
