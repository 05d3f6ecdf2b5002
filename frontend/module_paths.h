// The modules of the program that a model was exported from, by the exporter's metadata: further names of nodes and of
// the weights that they read, whose names in the file may say nothing (`val_76`).
#pragma once
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "frontend/onnx_model.h"
#include "ir/schedule.h"

namespace weftc {

/// The key of a node's metadata under which PyTorch's exporter writes them.
inline constexpr std::string_view kNameScopes = "pkg.torch.onnx.name_scopes";

/// A Python list of strings, `['a', "b"]`; nothing where the text is no such list.
std::optional<std::vector<std::string>> python_strings(std::string_view list);

/// The paths in PyTorch's form, a Python list of strings, `['', 'layers.0', 'layers.0.fc', 'linear']`: outer modules
/// first, the name of the operation last, which is left out. Empty where the text is no such list: it is another
/// program's.
std::vector<std::string> module_paths(std::string_view scopes);

/// Each module's path as the name of its nodes, and behind the innermost path `.weight` and `.bias` as names of the
/// constants that its nodes read. A name that the model uses itself keeps its meaning.
Aliases module_aliases(const OnnxModel& model);

}  // namespace weftc
