// Names for the values that a reader makes of others: of function bodies, of modifiers.
#pragma once
#include <string>
#include <unordered_set>

#include "frontend/onnx_model.h"

namespace weftc {

class FreshNames {
 public:
  /// All names of the graph, and of the graphs inside of it, are taken.
  explicit FreshNames(const OnnxGraph& graph) { take(graph); }
  /// `name`, or that with a number behind it which is not taken; it is taken then.
  std::string fresh(const std::string& name);

 private:
  void take(const OnnxGraph& graph);
  std::unordered_set<std::string> taken_;
};

}  // namespace weftc
