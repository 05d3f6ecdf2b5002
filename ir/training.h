// Outputs of the model that the steps of a training print and log.
#pragma once
#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace weftc {

/// The purpose of a node in a training step: the loss and other figures; derivatives; the next parameters.
enum class Phase : uint8_t { Forward, Backward, Update };

/// Suffix in the names of values that are computed again for the backward pass.
constexpr std::string_view kAgain = ".again";

struct Training {
  std::string loss, rate;
  std::string optimizer;             // name of the optimizer's function; checkpoints of other functions are refused
  std::string norm;                  // of all gradients together; empty: not computed
  std::vector<std::string> figures;  // other outputs that the schedule asks for
  std::vector<std::string> updates;  // other outputs of the update: an evaluation has none of them
  std::string evaluates;             // an input: whether the invocation is an evaluation; empty: absent
  bool recomputes = false;           // values are computed again: late ops are separate (glossary of ir/README.md)
  /// True for an output that an evaluation computes.
  bool is_figure(const std::string& output) const {
    return output == loss || std::find(figures.begin(), figures.end(), output) != figures.end();
  }
};

}  // namespace weftc
