// Shared by mutations of models and of schedules.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "onnx.pb.h"
#include "test/fuzz/target.h"

namespace weftc::fuzz {

/// Choices of one case.
class Dice {
 public:
  explicit Dice(Random& random) : random_(random) {}
  /// 0 .. n - 1; 0 where n is not positive.
  int roll(int n) { return n > 0 ? static_cast<int>(random_() % static_cast<uint32_t>(n)) : 0; }
  bool chance(int percent) { return roll(100) < percent; }
  template <class List>
  const auto& pick(const List& from) {
    return from[static_cast<size_t>(roll(static_cast<int>(from.size())))];
  }
  /// A number of the kind that is forgotten: mostly small, now and then at the end of a type.
  int64_t number();

 private:
  Random& random_;
};

/// Names of values that nodes of the graph may read: inputs, initialisers, results.
std::vector<std::string> value_names(const onnx::GraphProto& graph);

/// One change of the graph. `graph` may be of a node.
void change_graph(onnx::GraphProto& graph, Dice& dice);
/// The attributes of a node, by their types.
void change_attribute(onnx::NodeProto& node, Dice& dice);
/// Those without which the operator is refused; some of them name values of the graph.
void add_required_attributes(onnx::NodeProto& node, const std::vector<std::string>& names, Dice& dice);

/// Another schedule for the model: some lines of the old one with another number, or a new one that names what exists.
std::string changed_schedule(const onnx::GraphProto& graph, const std::string& old, Dice& dice);

}  // namespace weftc::fuzz
