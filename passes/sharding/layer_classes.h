// Models repeat their layers: the same op of all layers is one choice of a plan, and one line of a schedule.
//
//   h.0.mlp.c_fc, h.1.mlp.c_fc, ... h.11.mlp.c_fc   ->   one class, "h.{l}.mlp.c_fc"
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "passes/sharding/kept_layouts.h"

namespace weftc {

/// Ops of one kind, with operands and results of one type, whose names differ in one number that counts layers.
class LayerClasses {
 public:
  /// Ops with different kept entries for their operands and results are in different classes.
  explicit LayerClasses(const Graph& graph, const KeptLayouts* kept = nullptr);
  /// Every op in a class of its own.
  static LayerClasses of_one(const Graph& graph);
  /// The classes of a graph that has some of the ops of a larger one: `whole` by op of the part.
  static LayerClasses of_part(const Graph& part, const LayerClasses& of_whole, const std::vector<OpId>& whole);

  struct Class {
    std::vector<OpId> ops;  // in the graph's order
    std::string pattern;    // the name of all, with `{l}` in place of the number; "": an op outside of layers
  };
  const std::vector<Class>& all() const { return classes_; }
  int of(OpId id) const { return class_of_[id.index]; }
  const Class& class_of(OpId id) const { return classes_[static_cast<size_t>(of(id))]; }
  /// The number of an op's layer; nothing for an op outside of layers.
  std::optional<int64_t> layer_of(const Graph& graph, OpId id) const;

 private:
  LayerClasses() = default;
  void add_others(const Graph& graph);

  std::vector<Class> classes_;
  std::vector<int> class_of_;  // by op
};

/// The ways to read one number of a name as the number of a layer: the name with `{l}` in its place, and the number.
std::vector<std::pair<std::string, int64_t>> layer_readings(const std::string& name);

}  // namespace weftc
