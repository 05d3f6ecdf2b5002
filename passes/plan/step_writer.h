// Writes the steps of a Plan. Shared by the code for single steps (plan_steps) and the code for steps that hold others
// (plan_regions), which call each other.
#pragma once
#include <map>
#include <string>
#include <vector>

#include "ir/op_def.h"
#include "passes/plan/plan_parts.h"

namespace weftc {

/// Where the values of one graph lie while its steps are written. Each region has a scope of its own.
struct StepScope {
  const Graph& graph;
  std::vector<ValueMemory> held;  // by value index
  std::vector<Step>* steps;       // where the next step goes
  bool staged = false;            // of a pipeline: each op's step goes into its block
  /// Values that are partial sums over the chunks, with the buffers that accumulate them.
  std::map<ValueId, std::vector<std::pair<BufferId, ReduceOp>>> totals = {};

  StepScope(const Graph& g, std::vector<Step>& s) : graph(g), held(g.value_capacity()), steps(&s) {}
  ValueMemory& operator[](ValueId v) { return held[v.index]; }
};

class StepWriter {
 public:
  explicit StepWriter(PlanDraft& draft) : p_(draft), module_(draft.module) {}

  /// Writes blocks, ports and steps of the draft's Module into its Plan.
  void run();

 private:
  using Scope = StepScope;

  void make_blocks();
  int number_of_block(const Graph& graph, const Op& op) const;
  Block& block_of(const Graph& graph, const Op& op);
  Block& sending_block(const Graph& graph, const Op& transfer);
  BufferId new_buffer(const std::string& name, const TensorType& type, const Mesh& mesh, PlaceId place);
  Buffer& buffer(BufferId id) { return p_.plan.buffers[id.index]; }
  BufferId result_buffer(Scope& scope, ValueId v);

  Access access(BufferId id, bool write, const TensorType& type, const std::vector<int>& whole, const Mesh& mesh);
  Step new_step(const Op& op) const;
  void write(Scope& scope, const Op* chunk = nullptr);
  void write_op(Scope& scope, const Op& op);
  void write_input(Scope& scope, const Op& op);
  void write_alias(Scope& scope, const Op& op);
  void write_launch(Scope& scope, const Op& op);
  void add_exchanged_part(Access& made, const Kernel& kernel, size_t parameter) const;
  void write_collective(Scope& scope, const Op& op);
  bool runs_beside(const Scope& scope, const Op& op) const;
  void write_transfer(Scope& scope, const Op& op);
  void add_copy(Scope& scope, const Op& op, const std::string& name, BufferId from, BufferId to,
                bool accumulate = false);
  void add_output(Scope& scope, const Graph::Output& output);

  // In plan_lengths.cpp.
  void make_lengths();
  void limit_lengths(const Graph& graph);
  void demand_relations();
  bool is_made(const Length& length) const;
  BufferId length_buffer(const std::string& name, PlaceId place) const;
  void note_made_lengths(const Op& op, const LaunchStep& launch);

  // In plan_regions.cpp: steps that hold others.
  void write_chunk(Scope& scope, const Op& op);
  void write_if(Scope& scope, const Op& op);
  void write_loop(Scope& scope, const Op& op);
  void bind_loop_values(Scope& scope, Scope& body, const Op& op, LoopStep& loop, Step& step, size_t carried);
  void close_trip(Scope& body, const Op& op, LoopStep& loop, size_t carried);
  void add_next(Scope& body, const Op& op, const std::string& name, BufferId from, BufferId to, LoopStep& loop);

  PlanDraft& p_;
  const Module& module_;
};

/// The place of a value's buffer: the value's own, else the first one.
PlaceId memory_place(const Graph& graph, ValueId v);

}  // namespace weftc
