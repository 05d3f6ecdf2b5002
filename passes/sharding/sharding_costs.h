// The costs of a plan's choices, in picoseconds: an op on the fullest rank, and the collectives between two layouts.
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

/// Exchange times of a mesh on a machine: the collective, plus the time of a separate step between kernels. Refers to
/// `machine`, which must outlive it.
ExchangeSeconds exchange_seconds_on(const Machine& machine, const Mesh& mesh);

class ShardingCosts {
 public:
  ShardingCosts(const Module& module, const Graph& graph, Mesh mesh, Ceilings ceilings, ExchangeSeconds exchange);

  /// The cost of an op by itself. Ops that only move or read elements, and pointwise ops, run inside the kernels of
  /// others: they cost the writing of their results, and views cost nothing.
  int64_t computing(OpId id, const OpChoice& choice) const;
  /// The cost from one layout to another. A local slice costs next to nothing but not 0, so that
  /// between two plans of equal cost the one with fewer slices is chosen.
  int64_t resharding(const TensorType& from, const Layout& to) const;
  /// The same directly before one reader. It costs slightly more: between two plans of equal cost, the one is chosen
  /// whose collectives and slices come right after the producers, where an entry for a value can ask for them.
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
/// The sum of these costs, which a plan minimises.
int64_t laid_out_cost(const Module& module, const Graph& graph, const Ceilings& ceilings,
                      const ExchangeSeconds& exchange, const LayerCopies& copies = {});

}  // namespace weftc
