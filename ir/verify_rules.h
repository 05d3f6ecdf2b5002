// Internals of the verifier: the list of findings, and the layout rules of one op, written independently of the layout
// pass.
#pragma once
#include <string>
#include <vector>

#include "ir/base/text.h"
#include "ir/module.h"

namespace weftc {

/// Findings of the verifier, one line each. After some hundred lines further ones are dropped.
class Findings {
 public:
  template <class... Arguments>
  void add(const Op& op, std::string_view pattern, const Arguments&... arguments) {
    if (!full()) lines_.push_back(op_text(op) + format(pattern, arguments...));
  }
  void add(std::string line) {
    if (!full()) lines_.push_back(std::move(line));
  }
  bool full() const { return lines_.size() >= 200; }
  size_t count() const { return lines_.size(); }
  std::vector<std::string> take() { return std::move(lines_); }

 private:
  static std::string op_text(const Op& op);
  std::vector<std::string> lines_;
};

/// Checks that operands and results of an op that is not a region have layouts that the op's rule gives (L1-L10).
void verify_layout(const Module& module, const Graph& graph, const Op& op, Findings& findings);
/// Checks that a region's parameters and outputs have the layouts of their counterparts; a Chunk's add one axis of time
/// (C1).
void verify_region_layout(const Module& module, const Graph& graph, const Op& op, Findings& findings);
/// Checks that an op outside of kernels reads no constant from memory.
void verify_memory(const Graph& graph, const Op& op, Findings& findings);
/// Checks that each result of an op's region can have a buffer of its own.
void verify_region_memory(const Graph& region, const Op& owner, Findings& findings);

}  // namespace weftc
