// What the choices of a plan take, in picoseconds: an op on the fullest rank, and the collectives between two layouts.
#pragma once
#include <functional>
#include <map>
#include <tuple>

#include "passes/cost/cost_model.h"
#include "passes/sharding/layer_copies.h"
#include "passes/sharding/op_choices.h"

namespace weftc {

/// Seconds of a collective in which a rank's part of the operand has `before` bytes, and of the result `after`; among
/// ranks that differ in their coordinates on `axes` of the mesh.
using ExchangeSeconds = std::function<double(OpKind kind, int64_t before, int64_t after, const std::vector<int>& axes)>;

/// Those of a mesh on a machine: the collective, and that it is a step of its own between those of kernels. The machine
/// stays where it is.
ExchangeSeconds exchange_seconds_on(const Machine& machine, const Mesh& mesh);

class ShardingCosts {
 public:
  ShardingCosts(const Module& module, const Graph& graph, Mesh mesh, Ceilings ceilings, ExchangeSeconds exchange);

  /// An op by itself. What only moves or reads elements, and pointwise ops, stand in the kernels of others: they take
  /// what their results take to be written, and views nothing.
  int64_t computing(OpId id, const OpChoice& choice) const;
  /// From one layout to another. A slice that is only cut out takes next to nothing, yet not nothing: of two plans that
  /// else take the same, the one with fewer of them is chosen.
  int64_t resharding(const TensorType& from, const Layout& to) const;
  /// The same in front of one reader: of two plans that else take the same, the one is chosen whose collectives and
  /// cuts stand behind the producers, where an entry for a value says so.
  int64_t resharding_for_reader(const TensorType& from, const Layout& to) const;
  /// Bytes of a rank's part.
  int64_t bytes(const TensorType& type) const { return local_bytes(type, mesh_); }

 private:
  const Module& module_;
  const Graph& graph_;
  const Mesh mesh_;
  const Ceilings ceilings_;
  const ExchangeSeconds exchange_;
  // By element size, shape and both layouts, as text.
  mutable std::map<std::string, int64_t> known_;
};

/// Calls use(op, picoseconds) for the ops and collectives of a graph that is laid out.
using UseCost = std::function<void(OpId, int64_t)>;
void for_each_cost(const Module& module, const Graph& graph, const Ceilings& ceilings, const ExchangeSeconds& exchange,
                   const UseCost& use);
/// What they take one after the other: the sum that a plan minimises.
int64_t laid_out_cost(const Module& module, const Graph& graph, const Ceilings& ceilings,
                      const ExchangeSeconds& exchange, const LayerCopies& copies = {});

}  // namespace weftc
