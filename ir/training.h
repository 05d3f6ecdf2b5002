// What the steps of a training print and log: outputs of the model.
#pragma once
#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace weftc {

/// What a node of a training step is for: the loss and other figures; derivatives; the next parameters.
enum class Phase : uint8_t { Forward, Backward, Update };

/// What is computed again for the backward pass is called so behind its first name.
constexpr std::string_view kAgain = ".again";

struct Training {
  std::string loss, rate;
  std::string optimizer;             // the function that it is: checkpoints of others are not gone on from
  std::string norm;                  // of all gradients together; empty: it is not computed
  std::vector<std::string> figures;  // others that are asked for
  std::vector<std::string> updates;  // others that the update makes: an evaluation has none of them
  std::string evaluates;             // an input: whether the invocation is an evaluation; empty: nothing asks for it
  bool recomputes = false;           // values are computed again: late ops are apart (the glossary of ir/README.md)
  /// True for an output that an evaluation computes.
  bool is_figure(const std::string& output) const {
    return output == loss || std::find(figures.begin(), figures.end(), output) != figures.end();
  }
};

}  // namespace weftc
