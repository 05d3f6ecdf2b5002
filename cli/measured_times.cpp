// Blocks are found by their names. Fingerprints are hashes of sorted texts.
#include "cli/measured_times.h"

#include <algorithm>
#include <cstdio>
#include <set>

#include "cli/timeline_text.h"
#include "ir/plan_walk.h"
#include "passes/prepare/pipeline_order.h"

namespace weftc {

namespace {

/// FNV-1a, the same on every machine.
std::string hash_text(const std::set<std::string>& texts) {
  uint64_t hash = 0xcbf29ce484222325;
  const auto add = [&](char c) { hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3; };
  for (const std::string& text : texts) {
    for (const char c : text) add(c);
    add('\0');
  }
  char text[24];
  std::snprintf(text, sizeof text, "%016llx", static_cast<unsigned long long>(hash));
  return text;
}

/// The model's own nodes: gradients and recomputed values follow from them.
bool is_of_model(const Origin& origin) { return origin.phase == Phase::Forward && !origin.of; }

std::string node_text(const Origin& origin) { return origin.op_type + " " + origin.name; }

std::string model_text(const Plan& plan) {
  std::set<std::string> texts;
  for (const auto& [what, ports] : {std::pair{"input", &plan.inputs}, std::pair{"output", &plan.outputs}})
    for (const Port& port : *ports) texts.insert(format("{} {} {}", what, port.name, type_text(port.type, port.mesh)));
  for (const Origin& origin : plan.origins)
    if (is_of_model(origin)) texts.insert(node_text(origin));
  return hash_text(texts);
}

std::string rank_list(const std::vector<int>& ranks) {
  std::vector<std::string> texts;
  for (const int rank : ranks) texts.push_back(std::to_string(rank));
  return join(texts, ",");
}

std::string stages_text(const Plan& plan, const Module& module) {
  std::set<std::string> texts = {format("{} micro-batches", plan.micro_batches)};
  for (size_t b = 0; b < plan.blocks.size(); ++b) {
    const Block& block = plan.blocks[b];
    if (module.pipeline && (block.turn != Turn::MicroBatch || block.phase != Phase::Forward)) continue;
    const std::string ranks = rank_list(plan.places[block.place.index].ranks);
    for_each_step(block.steps, [&](const Step& step) {
      for (const OriginId id : step.origins)
        if (is_of_model(plan.origins[id.index])) texts.insert(ranks + " " + node_text(plan.origins[id.index]));
    });
  }
  return hash_text(texts);
}

}  // namespace

std::string name_of_block(const Plan& plan, const Module& module, const Schedule& schedule, int block) {
  const size_t at = static_cast<size_t>(block);
  if (plan.blocks[at].turn != Turn::MicroBatch) return plan.blocks[at].name;
  return name_in_table(*schedule.pipeline, module.pipeline->blocks[at], module.training.has_value());
}

Fingerprints fingerprints_of(const Plan& plan, const Module& module) {
  return {model_text(plan), stages_text(plan, module)};
}

bool is_of_same(const Profile& profile, const Fingerprints& wanted, Diags& diags) {
  if (profile.model != wanted.model)
    diags.error("profile-model", Loc::in_file(profile.file),
                "the profile was measured of another model: inputs, outputs or nodes differ");
  else if (profile.stages != wanted.stages)
    diags.error("profile-stages", Loc::in_file(profile.file),
                "the profile was measured of other stages: nodes run elsewhere, or for other numbers of micro-batches");
  return diags.ok();
}

bool take_measured_times(BlockCosts& costs, const Plan& plan, const Module& module, const Schedule& schedule,
                         const Profile& profile, Diags& diags) {
  if (!is_of_same(profile, fingerprints_of(plan, module), diags)) return false;
  std::vector<std::string> names, known;
  for (const BlockTime& block : profile.blocks) known.push_back(block.name);
  for (size_t b = 0; b < costs.blocks.size(); ++b) {
    names.push_back(name_of_block(plan, module, schedule, costs.blocks[b]));
    const auto found = std::find(known.begin(), known.end(), names[b]);
    if (found != known.end())
      costs.pipeline.problem.blocks[b].time = profile.blocks[static_cast<size_t>(found - known.begin())].time;
    else
      diags.error("profile-block", Loc::in_file(profile.file), "the profile has no block '{}'{}", names[b],
                  did_you_mean(names[b], known));
  }
  for (PipelineTransfer& transfer : costs.pipeline.transfers) {
    const std::string &from = names[as_index(transfer.from)], &to = names[as_index(transfer.to)];
    const auto found = std::find_if(profile.transfers.begin(), profile.transfers.end(),
                                    [&](const TransferTime& each) { return each.from == from && each.to == to; });
    if (found != profile.transfers.end())
      transfer.time = found->time;
    else
      diags.error("profile-transfer", Loc::in_file(profile.file), "the profile has no transfer from '{}' to '{}'", from,
                  to);
  }
  return diags.ok();
}

std::string times_text(const BlockCosts& costs, const Plan& plan, const Module& module, const Schedule& schedule,
                       bool are_measured) {
  std::vector<std::string> blocks;
  for (size_t b = 0; b < costs.blocks.size(); ++b)
    blocks.push_back(name_of_block(plan, module, schedule, costs.blocks[b]) + " " +
                     time_text(static_cast<double>(costs.pipeline.problem.blocks[b].time) * 1e-9));
  return format("{} times: {}", are_measured ? "measured" : "predicted", join(blocks, ", "));
}

}  // namespace weftc
