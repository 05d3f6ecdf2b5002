// Shared by the tests of the readers: reading from text, and the resulting diagnostics.
#pragma once
#include <string>
#include <vector>

#include "frontend/onnx_reader.h"
#include "frontend/schedule_reader.h"
#include "ir/op_def.h"

namespace weftc {

struct ReadModel {
  std::optional<Module> module;
  Diags diags;

  /// The ids of errors and warnings, in order, with blanks between.
  std::string ids() const {
    std::vector<std::string> ids;
    for (const Diagnostic& d : diags.all())
      if (!d.id.empty()) ids.push_back(d.id);
    return join(ids, " ");
  }
};

inline ReadModel read_text(const std::string& text, ReadOptions options = {}) {
  ReadModel read;
  if (options.path.empty()) options.path = "m.onnxtxt";
  read.module = read_onnx_source(text, options, read.diags);
  return read;
}

/// A model of the current opset with these inputs, outputs and nodes.
inline ReadModel read_graph(const std::string& graph, ReadOptions options = {}) {
  return read_text("<ir_version: 10, opset_import: [\"\" : 20, \"local\" : 1]>\nm " + graph, std::move(options));
}

inline ReadOptions with_dims(const std::vector<std::string>& dims) {
  ReadOptions options;
  Diags diags;
  for (const std::string& dim : dims) options.dims.push_back(*parse_dim_option(dim, diags));
  return options;
}

/// One line "y = MatMul(x, w)" per op, followed by its regions, indented. Input and Constant ops are "x = Input()".
inline std::string shown(const Graph& graph, const std::string& indent = "") {
  std::string text;
  const auto name = [&](ValueId v) { return v ? graph.value(v).name : std::string("-"); };
  for (OpId id : graph.order()) {
    const Op& op = graph.op(id);
    std::vector<std::string> results, operands;
    for (ValueId v : op.outputs) results.push_back(name(v));
    for (ValueId v : op.inputs) operands.push_back(name(v));
    text += indent + join(results, ", ") + " = " + op_def(op).name + "(" + join(operands, ", ") + ")\n";
    for (const Graph& region : op.regions) text += shown(region, indent + "  ") + indent + "  --\n";
  }
  return text;
}

struct ReadSchedule {
  std::optional<Schedule> schedule;
  Diags diags;

  std::string ids() const {
    std::vector<std::string> ids;
    for (const Diagnostic& d : diags.all())
      if (!d.id.empty()) ids.push_back(d.id);
    return join(ids, " ");
  }
};

inline ReadSchedule read_yaml_schedule(const std::string& text) {
  ReadSchedule read;
  read.schedule = read_schedule_text("s.yaml", text, read.diags);
  return read;
}

}  // namespace weftc
