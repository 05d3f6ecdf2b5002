// Contracts a convex set of ops into one op that owns them as a region.
#pragma once
#include <string>
#include <vector>

#include "ir/module.h"

namespace weftc {

/// A set of ops of one graph, as a region would see it.
struct RegionPlan {
  std::vector<OpId> ops;          // in graph order
  std::vector<ValueId> operands;  // values from outside, each once: run-time lengths, then in order of first use
  std::vector<ValueId> results;   // values made inside that are read outside
  OpId between;                   // an op outside that lies on a path from the set to itself: not convex
};
RegionPlan plan_region(const Graph& graph, const std::vector<OpId>& ops);

/// The op that will own the region: its kind, attributes and name, and the transform that made it.
struct RegionOp {
  OpKind kind;
  Attrs attrs;
  std::string name;
  TransformId transform;
};
/// Replaces the planned (convex) set by one op of `kind` with one region; the region's ops keep names, origins and
/// types, its parameters are named like the operands. Result types are the types of the values. The new op's id.
OpId contract(Graph& graph, const RegionPlan& plan, RegionOp made);

}  // namespace weftc
