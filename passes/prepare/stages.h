// The stages of a pipeline: assigns each op to a stage and to a block of it.
#pragma once
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "ir/module.h"
#include "ir/schedule.h"
#include "ir/target.h"
#include "passes/prepare/cut_line.h"

namespace weftc {

/// An op of block `to` reads a result of block `from`.
struct BlockRead {
  int from, to;
  std::string value, node;
  bool same_place;  // through memory, without a transfer
};

/// True for ops that compute nothing: inputs, constants, draws.
bool is_source(const Op& op);

/// The forward pass as a line of cells: groups of nodes that go into one stage together. In a training, the time of a
/// cell includes the derivatives of its nodes and the updates of its parameters.
struct StageCells {
  std::vector<LineItem> line;
  std::vector<int> cell_of;      // by op: the cell with which it goes into a stage; -1: it is computed wherever it is
                                 // read
  std::vector<bool> is_node;     // by op: it stands in the line; other ops follow their operands or readers
  std::vector<bool> is_forward;  // by op: it is of the forward pass
};

/// Finds the stage of every op that computes.
///
///   forward pass     the stage that lists the node; views and what `train:` adds go where their operands are
///   backward pass    the stage of the node that is differentiated
///   update           the stage of the parameter; what is computed from several, where the last of them is
///   totals           a loss of several stages' losses has a block of its own, that the stages need not wait for
///
/// A value that is computed from inputs alone and that no stage lists, such as a mask or a rate, is computed in each
/// stage that reads it. A value that a training computes from parameters alone is computed at each place that reads it,
/// whichever stage lists it.
class Stages {
 public:
  Stages(Module& module, const Schedule& schedule, const Target& target, Diags& diags);
  /// Reports nodes of the model that no stage lists, or that several do.
  void assign();
  /// The cells that `stages: N` cuts, for a schedule that asks for stages without nodes. Called in place of assign();
  /// leaves the module as it is.
  StageCells find_cells();
  /// Makes the blocks, and gives each op its block's number and its stage's place.
  std::vector<Pipeline::Block> number_blocks();
  /// The values that blocks read of each other: the first value of each pair of blocks.
  std::vector<BlockRead> reads() const;
  /// The copy of a value in a stage at this place; invalid where it is computed elsewhere alone.
  ValueId copy_in(ValueId value, PlaceId place) const;

 private:
  static constexpr int kNone = -1, kSeveral = -2;  // stages

  /// Ops of the forward pass in a line, with their cells.
  struct CellLine {
    std::vector<OpId> ops;
    std::vector<size_t> cell_of;  // by op of the line
    std::vector<LineItem> cells;
  };

  void assign_listed(int stage);
  bool is_of_model(const Origin& origin) const;
  bool is_listed_by(const std::string& name, const Op& op) const;
  void report_contested();
  std::string merged_text(const Op& op) const;
  void find_phases();
  bool may_be_free(OpId id) const;
  void find_free();
  void find_of_parameters();
  void assign_of_parameters();
  bool is_free(OpId id) const { return free_[id.index]; }
  bool is_added(const Op& op) const;
  bool is_large(const Op& source) const;
  void rank_stages();
  void assign_rest();
  void assign_cuts();
  void add_rest_of_training(std::vector<LineItem>& line) const;
  void note_cuts(const CellLine& cells, const std::vector<int>& cut);
  CellLine line_of_cells() const;
  bool is_of_model(OpId id) const;
  std::vector<int64_t> bytes_after(const std::vector<OpId>& ops) const;
  void assign_forward();
  bool joins_stages(const Op& op) const;
  int stage_of_rest() const;
  void split_backward();
  void join_late_weights(const std::vector<bool>& is_awaited, std::vector<bool>& is_split) const;
  void find_totals();
  std::map<OriginId, int> stages_of_nodes() const;
  void assign_backward();
  void keep_received();
  ValueId find_first(ValueId again) const;
  std::vector<bool> derivatives_of_parameters() const;
  void find_sums_of_gradients();
  int first_reader(ValueId value) const;
  void find_homes();
  void assign_update();
  std::vector<bool> views_of_forward() const;
  void copy_free_ops();
  void join_at_places(int home, std::map<int, std::vector<Use>>& readers) const;
  void copy_for_stages(OpId id);
  void report_missing();
  int latest(int a, int b) const;
  int earliest(int a, int b) const;
  int last_stage() const;
  int stage_of_operands(const Op& op) const;

  int& stage(OpId id) { return stage_of_[id.index]; }
  int stage(OpId id) const { return stage_of_[id.index]; }
  Phase& phase(OpId id) { return phase_of_[id.index]; }

  /// Two stages list an op.
  struct Contest {
    OpId op;
    int before;
    Loc loc;
  };

  Module& module_;
  Graph& graph_;
  const Schedule& schedule_;
  const Target& target_;
  Diags& diags_;
  std::vector<int> stage_of_;  // by op; -1: no stage
  std::vector<Contest> contests_;
  std::vector<Phase> phase_of_;
  std::vector<bool> of_weights_;      // of a split backward pass: no other stage waits for it
  std::vector<bool> is_figure_;       // of a training: forward, and no derivative is computed from it
  std::vector<bool> is_total_;        // a figure, computed from figures of several stages
  std::vector<bool> free_;            // computed from inputs and constants alone, and listed by no stage
  std::vector<bool> of_parameters_;   // of a training: forward, computed from parameters alone, and not free
  std::map<OpId, int> listed_;        // the stages that list such ops
  std::vector<int> rank_;             // of a stage: it comes after those that it reads
  std::map<std::string, int> homes_;  // of states, by the name of the input
  std::map<ValueId, std::map<int, ValueId>> copies_;  // of values that several stages compute, by stage
};

}  // namespace weftc
