// ONNX model -> Module: generic over the op table.
//
// What the graph looks like afterwards:
// - Inputs come first, as Input ops named like the model's inputs, with their types; then one ExtentOf for each bounded
//   dim ("seq.length", on the first input that has it, shared by all). Other values have no types yet.
// - Initialisers that are used stand as Constant ops (attribute `value`) before their first reader; so do Constant
// nodes.
//   An input that has an initialiser or is bound is a constant.
// - A node's op has the node's name (its first output's, if it has none), values have their ONNX names. Absent optional
//   operands are none ids. Attributes are those of the node, by the record; defaults are left to infer-types.
// - Subgraphs are regions with explicit captures. If: inputs are the condition, then the captures, and both regions
//   (then, else) take all captures as their parameters. Loop: inputs are trip count, condition, carried values,
//   captures; the region's parameters are iteration, condition, carried values, captures. Scan: one to one, captures
//   last. Captures are in order of first use. Outer constants are no captures: a region has its own Constant op, of the
//   same ConstantId.
#pragma once
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "ir/module.h"
#include "ir/schedule.h"

namespace weftc {

/// --shape INPUT=1x3x224x224
struct ShapeRequest {
  std::string input;
  Dims dims;
};
/// --bind INPUT=FILE.npy
struct BindRequest {
  std::string input;
  std::string file;
};

struct ReadOptions {
  std::string path;              // .onnx or .onnxtxt
  std::vector<DimRequest> dims;  // one value each: specialisations are read one by one
  std::vector<ShapeRequest> shapes;
  std::vector<BindRequest> binds;
};

/// Nothing after reporting. What the model's device annotations say is added to `schedule`; null: they are not read.
std::optional<Module> read_onnx(const ReadOptions& options, Diags& diags, Schedule* schedule = nullptr);
/// The same of a model in ONNX text syntax; `options.path` names it in messages and locates external data.
std::optional<Module> read_onnx_source(const std::string& text, const ReadOptions& options, Diags& diags,
                                       Schedule* schedule = nullptr);

/// "seq=128", "seq=1,128", "seq<=1024": what --dim takes. Nothing after reporting.
std::optional<DimRequest> parse_dim_option(const std::string& text, Diags& diags);
/// "INPUT=1x3x224x224"; "INPUT=scalar" is no dimensions.
std::optional<ShapeRequest> parse_shape_option(const std::string& text, Diags& diags);
/// "INPUT=FILE.npy"
std::optional<BindRequest> parse_bind_option(const std::string& text, Diags& diags);

/// What `inspect` shows, also of a model that cannot be compiled.
struct ModelSummary {
  struct Port {
    std::string name;
    std::string type;  // "float[batch, 3, 224, ?]"
  };
  int64_t ir_version = 0;
  std::string producer;
  std::map<std::string, int64_t> opsets;  // "" is ai.onnx
  std::vector<Port> inputs;
  std::vector<Port> outputs;
  std::vector<std::string> dims;               // names of symbolic dims of inputs, in order
  std::map<std::string, int64_t> ops;          // name with domain to number of nodes, functions inlined
  std::map<std::string, int64_t> unsupported;  // the same, of those that no record reads
  int64_t initialiser_bytes = 0;
};
std::optional<ModelSummary> summarise_onnx(const std::string& path, Diags& diags);

}  // namespace weftc
