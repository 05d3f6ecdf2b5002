// Nesting depth of graphs. Readers, passes and the programs made of them process nested graphs by recursion, which
// needs stack.
#pragma once
#include <cstddef>
#include <span>

#include "frontend/onnx_model.h"

namespace weftc {

inline constexpr int kDeepestGraph = 64;

/// Report graphs that are nested too deeply: in the bytes of a binary model before it is parsed (they may be invalid),
/// and in a model.
bool check_graph_depth(std::span<const std::byte> bytes, const std::string& file, Diags& diags);
bool check_graph_depth(const OnnxModel& model, Diags& diags);

}  // namespace weftc
