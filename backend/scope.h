// Statements under construction as a tree of scopes, so that a statement can be placed as far out as its operands
// allow.
#pragma once
#include <map>

#include "backend/statement.h"

namespace weftc {

/// A loop or block under construction. It is appended to its parent when it is closed, so statements put into the
/// parent before that come before it.
struct Scope {
  Scope* parent = nullptr;
  int depth = 0;
  /// Device kernels: all threads of a row run it together, and its values are the same on all of them.
  bool uniform = true;
  /// A loop over a row, and the array that keeps its values for the next loop over the row: one of the row, or on a
  /// device one of each lane.
  struct RowArray {
    Scope* loop = nullptr;  // outermost of the row's loops
    int64_t count = 0, lane_count = 0;
    Expr at, lane_at;
    bool has_room = true;  // otherwise a value is kept only in an output, by the last loop over the row
    int number = 0;        // host: of the loop
  };
  std::optional<RowArray> keeping;
  /// A value that a loop over a row computes. It is kept once a later loop requests it.
  struct RowValue {
    Expr value;  // inside the loop
    std::string type;
    int64_t element_bytes = 0;
    RowArray array;
    Expr place = {};                     // in the array, once it is kept
    Later declaration = {}, store = {};  // before the row's loops, and inside
  };
  using RowValues = std::map<std::string, std::shared_ptr<RowValue>>;
  std::map<std::string, Expr> known;  // values that have a name here
  RowValues computed;                 // by this loop
  RowValues row_values;               // by closed loops of this scope

  Scope() = default;
  Scope(Scope* parent, Statement node)
      : parent(parent), depth(parent->depth + 1), uniform(parent->uniform), node_(std::move(node)) {}

  void put(Statement statement) { body_.push_back(std::move(statement)); }
  /// Adds a statement after the closed scope.
  void put_after(Statement statement) { after_.push_back(std::move(statement)); }
  const Statements& body() const { return body_; }
  Statements take_body() { return std::move(body_); }
  /// This scope's loop; null for another block.
  For* loop() { return node_ ? std::get_if<For>(&node_->what) : nullptr; }
  /// Joins the parent's statements.
  void finish();

 private:
  std::optional<Statement> node_;  // the statement that it becomes when closed; nothing for the outermost scope
  Statements body_, after_;
};

}  // namespace weftc
