// Shared by tests of passes: compiles a model in ONNX text with a schedule up to some pass, and evaluates it on N
// virtual ranks.
#pragma once
#include <doctest/doctest.h>

#include <cmath>
#include <map>
#include <memory>
#include <string>

#include "frontend/onnx_reader.h"
#include "frontend/schedule_reader.h"
#include "ir/evaluate/evaluate.h"
#include "ir/op_def.h"
#include "passes/runner.h"

namespace weftc::test {

/// A module after the passes up to `stop_after` (all of them if empty), with everything that was reported.
struct Scheduled {
  Diags diags;
  Schedule schedule;
  Target target;
  std::optional<Module> module;
  RunReport report;

  bool ok() const { return module && diags.ok(); }
};

inline std::unique_ptr<Scheduled> prepare(const std::string& model, const std::string& yaml,
                                          const std::string& stop_after, Target target = {}) {
  auto made = std::make_unique<Scheduled>();
  made->target = std::move(target);
  if (!yaml.empty()) {
    std::optional<Schedule> schedule = read_schedule_text("s.yaml", yaml, made->diags);
    if (!schedule) return made;
    made->schedule = std::move(*schedule);
  }
  made->module = read_onnx_source(model, {"model.onnxtxt", made->schedule.dims, {}, {}}, made->diags, &made->schedule);
  if (!made->module) return made;
  RunOptions options;
  options.stop_after = stop_after;
  run_pipeline(*made->module, {made->schedule, made->target, made->diags}, options, made->report);
  return made;
}

/// Seeded inputs: reals in [-1, 1), whole numbers 0 .. 3.
inline Tensor seeded_tensor(const TensorType& type, uint32_t seed) {
  Tensor t(type.dtype, type.dims());
  uint32_t state = seed * 2654435761u + 12345;
  for (int64_t i = 0; i < t.size(); ++i) {
    state = state * 1664525u + 1013904223u;
    if (t.is_real())
      t.real[i] = static_cast<float>(static_cast<double>(state >> 8) / (1 << 23) - 1);
    else
      t.put_int(i, state >> 30);
  }
  return t;
}

inline std::vector<Tensor> seeded_inputs(const Module& module) {
  std::vector<Tensor> inputs;
  for (ValueId v : module.graph.inputs()) {
    const Op& op = module.graph.producer_op(v);
    const int port = op.port.value_or(static_cast<int>(inputs.size()));
    if (port == static_cast<int>(inputs.size()))
      inputs.push_back(seeded_tensor(module.graph.type(v), static_cast<uint32_t>(port + 1)));
  }
  return inputs;
}

/// Ops of a kind in a graph and its regions.
inline int count_ops(const Graph& graph, OpKind kind) {
  int n = 0;
  for (OpId id : graph.order()) {
    n += graph.op(id).kind == kind;
    for (const Graph& region : graph.op(id).regions) n += count_ops(region, kind);
  }
  return n;
}

/// "AllGather 2, ReduceScatter 2": the communicating collectives of a module.
inline std::string collectives_text(const Module& module) {
  std::string text;
  for (OpKind kind : {OpKind::AllGather, OpKind::AllReduce, OpKind::AllToAll, OpKind::ReduceScatter})
    if (const int n = count_ops(module.graph, kind))
      text += (text.empty() ? "" : ", ") + std::string(op_def(kind).name) + " " + std::to_string(n);
  return text;
}

/// Largest error of any output, scheduled against unscheduled on one rank.
inline double error_against_one_rank(const std::string& model, const std::string& yaml, const std::string& stop_after) {
  const auto many = prepare(model, yaml, stop_after);
  INFO(many->diags.text());
  REQUIRE(many->ok());
  const auto one = prepare(model, "", "decompose");
  INFO(one->diags.text());
  REQUIRE(one->ok());
  const std::vector<Tensor> inputs = seeded_inputs(*one->module);
  const EvalResult a = evaluate(*many->module, inputs), b = evaluate(*one->module, inputs);
  INFO(a.error);
  INFO(b.error);
  REQUIRE(a.error.empty());
  REQUIRE(b.error.empty());
  REQUIRE(a.outputs.size() == b.outputs.size());
  double worst = 0;
  for (size_t i = 0; i < a.outputs.size(); ++i) worst = std::max(worst, relative_error(a.outputs[i], b.outputs[i]));
  return worst;
}

}  // namespace weftc::test
