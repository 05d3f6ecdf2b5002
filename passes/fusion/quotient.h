// A graph of nodes that are merged step by step and must stay acyclic: it decides whether a kernel may be formed.
#pragma once
#include <cstdint>
#include <vector>

namespace weftc {

/// Nodes 0 .. count-1, numbered in a topological order. Keeps an order of the groups (Pearce and Kelly's dynamic
/// order), so that a merge visits only the groups between the two in that order.
class Quotient {
 public:
  explicit Quotient(int count);

  /// Call before any merge; `from` precedes `to`.
  void add_edge(int from, int to);
  /// Joins the groups of two nodes unless that made a cycle through other groups. Equal groups are joined already.
  bool merge(int a, int b);
  /// The group of a node, as one of its nodes.
  int group(int node) const;

 private:
  bool reaches(int from, int to, std::vector<int>& forward);
  void reaching(int to, int lowest, std::vector<int>& backward);
  void compact(std::vector<int>& neighbours, int self);

  mutable std::vector<int> parent_;
  std::vector<int> place_;  // of a group in the order
  std::vector<std::vector<int>> successors_, predecessors_;
  std::vector<uint32_t> seen_;
  uint32_t round_ = 0;
};

}  // namespace weftc
