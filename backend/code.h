// Emitted statements as a tree of scopes, so that a statement can be put as far out as its operands allow.
#pragma once
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

namespace weftc {

/// A loop or block under construction. Its text joins the parent when it is closed; what is put into the parent before
/// that stands in front of it.
struct Scope {
  Scope* parent = nullptr;
  int depth = 0;
  std::string open;  // "for (int64_t i = 0; i < 8; ++i) {"; empty: no lines of its own
  std::string close = "}";
  std::string pragma;  // in front of `open`
  /// Device kernels: all threads of a row run it together, and its values are the same on all of them.
  bool uniform = true;
  /// Device kernels: a loop over a row whose iterations lanes take in turn, and where a lane keeps what it computed in
  /// one of them for the next loop over the row: in an array of its own, or in one of the row.
  struct RowArray {
    Scope* loop = nullptr;  // outermost of the row's loops
    int64_t count = 0, lane_count = 0;
    std::string at, lane_at;
  };
  std::optional<RowArray> keeping;
  std::vector<std::string> lines;
  std::vector<std::string> behind;            // stands behind the closed scope
  std::map<std::string, std::string> known;   // values that have a name here
  std::map<std::string, std::string> arrays;  // values that a finished loop of this scope has put into an array
  std::map<std::string, std::string> filled;  // those that this loop fills

  Scope() = default;
  Scope(Scope* parent, std::string open)
      : parent(parent), depth(parent->depth + 1), open(std::move(open)), uniform(parent->uniform) {}
  void put(std::string line) { lines.push_back(std::move(line)); }
  /// Appends itself, indented, to the parent's lines.
  void finish();
};

/// The text of lines, each indented by `spaces`, wrapped nowhere.
std::string block_text(const std::vector<std::string>& lines, int spaces);

}  // namespace weftc
