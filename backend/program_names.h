// The names of everything that an emitted program declares: the Plan's own names, made legal and unique. They are
// chosen once for the whole program, so that declarations, kernels and steps agree.
#pragma once
#include <map>
#include <set>
#include <string>
#include <vector>

#include "backend/kernel_text.h"
#include "ir/plan_walk.h"

namespace weftc {

struct ProgramNames {
  std::string program;                         // name of the executable
  std::string space;                           // the namespace: that name, with a variant's own inside it
  std::vector<std::vector<std::string>> axes;  // by place and axis
  std::vector<std::string> streams, buffers, weights, signals, transfers, blocks;
  std::vector<std::string> kernels;  // by kernel
  std::vector<std::string> lives;    // by buffer: when it is live, for human readers
  Names taken;                       // all of them

  // For layers that the text has as a loop (layers.h); buffers of one position have one name. LayerWeights: the name of
  // a weight that is declared for all layers with the first one's, and the constant with the distance of the others.
  struct LayerWeights {
    std::string name, layers;
  };
  std::map<uint32_t, LayerWeights> layer_weights;  // by the first layer's weight
  std::set<uint32_t> in_layers;                    // weights that are declared with another layer's
  std::vector<std::string> layer_lines;            // those constants

  explicit ProgramNames(const Plan& plan, const std::string& variant = "");
  /// Axes of a place as an argument that selects a rank group: "tp", "{tp, dp}", or "{}" for this rank alone.
  std::string group(PlaceId place, const std::vector<int>& axes) const;
};

/// The number of elements of a buffer's instance as a readable product: "128 * 768".
std::string count_text(const Dims& dims);

}  // namespace weftc
