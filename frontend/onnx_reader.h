// Reads an ONNX model into a Module; generic over the op table.
//
// The resulting graph:
// - Inputs come first, as Input ops named like the model's inputs, with their types. A bounded dim is a length of that
//   dim's name. Other values have no types yet.
// - Initialisers that are used become Constant ops (attribute `value`) before their first reader; so do Constant nodes.
//   An input that has an initialiser or is bound is a constant.
// - A node's op has the node's name (its first output's, if it has none), values have their ONNX names. Absent optional
//   operands are none ids. Attributes are those of the node, by the record; infer-types fills in defaults.
// - Subgraphs are regions with explicit captures. If: inputs are the condition, then the captures, and both regions
//   (then, else) take all captures as their parameters. Loop: inputs are trip count, condition, carried values,
//   captures; the region's parameters are iteration, condition, carried values, captures. Scan: one to one, captures
//   last. Captures are in order of first use. Outer constants are not captures: a region has its own Constant op, with
//   the same ConstantId.
#pragma once
#include <optional>
#include <string>

#include "frontend/onnx_options.h"
#include "ir/module.h"

namespace weftc {

/// Nothing after reporting. The model's device annotations are added to `schedule`; if it is null, they are not read.
std::optional<Module> read_onnx(const ReadOptions& options, Diags& diags, Schedule* schedule = nullptr);
/// The same for a model in ONNX text syntax; `options.path` names it in messages and locates external data.
std::optional<Module> read_onnx_source(const std::string& text, const ReadOptions& options, Diags& diags,
                                       Schedule* schedule = nullptr);

}  // namespace weftc
