// The sections of a schedule that do not need the mesh; schedule_reader.cpp has the others. Each function reports
// errors.
#pragma once
#include <string>
#include <vector>

#include "frontend/yaml_values.h"
#include "ir/schedule.h"

namespace weftc {

inline constexpr int64_t kMostChunks = 1 << 16;

/// A dimension of a tensor.
int read_dim(YamlValues& values, const YamlNode& node, const std::string& what);
/// The text of a name, `NAME` or `weight_of(NODE)`; the mapping {weight_of: NODE} is the latter. Nothing after
/// reporting.
std::optional<std::string> read_name(YamlValues& values, const YamlNode& node, const std::string& what);
/// The selector that a name's text denotes.
Selector selector_of(const std::string& text, const Loc& loc);
/// One name of nodes or values, or a list of them.
std::vector<Selector> read_selectors(YamlValues& values, const YamlNode& node, const std::string& what);
/// The section `transform:`.
std::vector<TransformStep> read_transforms(YamlValues& values, const YamlNode& node);
/// The section `pipeline:`.
PipelineRequest read_pipeline(YamlValues& values, const YamlNode& node);
/// Checks that the pipeline's places exist, and that a table of its order is complete; for a schedule with a pipeline.
void check_pipeline(const Schedule& schedule, Diags& diags);
/// The section `generate:`.
GenerateRequest read_generate(YamlValues& values, const YamlNode& node);
/// The section `train:`.
TrainRequest read_train(YamlValues& values, const YamlNode& node);
/// The section `precision:`: one precision for all contractions, or one for each name.
std::vector<PrecisionEntry> read_precision(YamlValues& values, const YamlNode& node);
/// The section `kernels:`.
std::vector<KernelPin> read_kernels(YamlValues& values, const YamlNode& node);

}  // namespace weftc
