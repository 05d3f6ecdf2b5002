// Names for values that a reader derives from others: from function bodies, from modifiers.
#pragma once
#include <string>
#include <unordered_set>

#include "frontend/onnx_model.h"

namespace weftc {

class FreshNames {
 public:
  /// All names of the graph, and of the graphs inside of it, are taken.
  explicit FreshNames(const OnnxGraph& graph) { take(graph); }
  /// Returns `name`, with a number appended if it is taken, and marks it as taken.
  std::string fresh(const std::string& name);

 private:
  void take(const OnnxGraph& graph);
  std::unordered_set<std::string> taken_;
};

}  // namespace weftc
