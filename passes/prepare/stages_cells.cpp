// Stages for which the schedule lists no nodes: cuts the line of cells into stages of about the same time.
#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>

#include "ir/op_def.h"
#include "passes/cost/cost_model.h"
#include "passes/prepare/branch_order.h"
#include "passes/prepare/stages.h"

namespace weftc {

/// True for an op of the forward pass that a stage has to have, and does not follow others.
bool Stages::is_of_model(OpId id) const {
  const Op& op = graph_.op(id);
  const bool follows =
      is_source(op) || category(op) == Category::View || is_added(op) || is_free(id) || of_parameters_[id.index];
  return phase_of_[id.index] == Phase::Forward && !follows;
}

/// For each op of a line: the bytes that the ops up to it make and later ops read.
std::vector<int64_t> Stages::bytes_after(const std::vector<OpId>& ops) const {
  std::map<OpId, size_t> at;
  for (size_t i = 0; i < ops.size(); ++i) at[ops[i]] = i;
  std::vector<int64_t> bytes(ops.size() + 1, 0);
  for (size_t i = 0; i < ops.size(); ++i)
    for (const ValueId v : graph_.op(ops[i]).outputs) {
      size_t last = i;
      std::vector<ValueId> read{v};
      for (size_t r = 0; r < read.size(); ++r)  // through views
        for (const Use& use : graph_.value(read[r]).uses) {
          if (!use.op) continue;
          if (const auto reader = at.find(use.op); reader != at.end()) last = std::max(last, reader->second);
          if (category(graph_.op(use.op)) == Category::View) read.push_back(graph_.result(use.op));
        }
      const int64_t size = local_bytes(graph_.type(v), {});
      bytes[i] += size, bytes[last] -= size;
    }
  for (size_t i = 1; i < bytes.size(); ++i) bytes[i] += bytes[i - 1];
  return bytes;
}

/// Nodes stay whole; branches follow one another.
Stages::CellLine Stages::line_of_cells() const {
  std::vector<bool> is_node(graph_.op_capacity(), false);
  for (const OpId id : graph_.order()) is_node[id.index] = is_of_model(id);
  CellLine line{branches_in_line(graph_, is_node), {}, {}};
  const std::vector<int64_t> after = bytes_after(line.ops);
  const Ceilings ceilings = ceilings_of(target_);
  std::map<std::string, size_t> last_of;  // of a node's ops
  for (size_t i = 0; i < line.ops.size(); ++i)
    for (const OriginId node : graph_.op(line.ops[i]).origins) last_of[module_.origins[node.index].name] = i;
  size_t end = 0;  // of the nodes that have begun
  for (size_t i = 0; i < line.ops.size(); ++i) {
    const Op& op = graph_.op(line.ops[i]);
    if (i == 0 || i > end) line.cells.emplace_back();
    for (const OriginId node : op.origins) end = std::max(end, last_of[module_.origins[node.index].name]);
    line.cell_of.push_back(line.cells.size() - 1);
    line.cells.back().time += seconds_alone(module_, graph_, op, ceilings);
    line.cells.back().after = after[i];
  }
  return line;
}

/// Adds the time of the derivatives of each cell's nodes and the updates of its parameters, which run in the same
/// stage.
void Stages::add_rest_of_training(std::vector<LineItem>& line) const {
  const Ceilings ceilings = ceilings_of(target_);
  for (const OpId id : graph_.order()) {
    const Op& op = graph_.op(id);
    if (phase_of_[id.index] == Phase::Forward || is_source(op) || stage(id) < 0) continue;
    line[static_cast<size_t>(stage(id))].time += seconds_alone(module_, graph_, op, ceilings);
  }
}

/// Stages of about the same time, cut between nodes.
void Stages::assign_cuts() {
  CellLine line = line_of_cells();
  if (module_.training) line.cells = Stages(module_, schedule_, target_, diags_).find_cells().line;
  const size_t stages = schedule_.pipeline->stages.size();
  if (line.cells.size() < stages) {
    diags_.error("stages-too-many", schedule_.pipeline->stages[0].loc, "the model has {} nodes for {} stages",
                 line.cells.size(), stages);
    return;
  }
  const std::vector<int> cut = cut_line(line.cells, static_cast<int>(stages));
  for (size_t i = 0; i < line.ops.size(); ++i) stage(line.ops[i]) = cut[line.cell_of[i]];
  note_cuts(line, cut);
}

/// Notes for `explain` which ops went into which stage.
void Stages::note_cuts(const CellLine& line, const std::vector<int>& cut) {
  double total = 0;
  for (const LineItem& cell : line.cells) total += cell.time;
  for (size_t s = 0; s < schedule_.pipeline->stages.size(); ++s) {
    double time = 0;
    for (size_t i = 0; i < line.cells.size(); ++i)
      if (cut[i] == static_cast<int>(s)) time += line.cells[i].time;
    const auto is_here = [&](size_t i) { return cut[line.cell_of[i]] == static_cast<int>(s); };
    size_t first = 0, last = line.ops.size() - 1;
    while (!is_here(first)) ++first;
    while (!is_here(last)) --last;
    module_.remarks.push_back(format("stage '{}': '{}' .. '{}', {} % of the predicted time",
                                     schedule_.pipeline->stages[s].name, graph_.op(line.ops[first]).name,
                                     graph_.op(line.ops[last]).name, std::lround(100 * time / total)));
  }
}

/// Each cell as a stage. The line is in an order in which cells may follow each other, so that the number of a cell is
/// its rank.
StageCells Stages::find_cells() {
  find_phases();
  find_free();
  find_of_parameters();
  const CellLine line = line_of_cells();
  StageCells found{line.cells, {}, std::vector<bool>(graph_.op_capacity(), false), {}};
  for (const Phase phase : phase_of_) found.is_forward.push_back(phase == Phase::Forward);
  for (size_t i = 0; i < line.ops.size(); ++i) {
    stage(line.ops[i]) = static_cast<int>(line.cell_of[i]);
    found.is_node[line.ops[i].index] = true;
  }
  rank_.resize(line.cells.size());
  std::iota(rank_.begin(), rank_.end(), 0);
  if (line.cells.empty()) return found;
  assign_forward();
  if (module_.training) {
    assign_of_parameters();
    assign_backward();
    find_sums_of_gradients();
    find_homes();
    assign_update();
    add_rest_of_training(found.line);
  }
  found.cell_of = stage_of_;
  return found;
}

}  // namespace weftc
