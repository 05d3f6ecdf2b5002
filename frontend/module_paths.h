// The modules of the exported program, from the exporter's metadata. They give further names to nodes and to the
// weights that these read, whose names in the file may be meaningless (`val_76`).
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

/// A Python list of strings, `['a', "b"]`; nothing if the text is not such a list.
std::optional<std::vector<std::string>> python_strings(std::string_view list);

/// The paths in PyTorch's form, a Python list of strings, `['', 'layers.0', 'layers.0.fc', 'linear']`: outer modules
/// first, the name of the operation last, which is dropped. Empty if the text is not such a list: another program wrote
/// it.
std::vector<std::string> module_paths(std::string_view scopes);

/// Each module's path is a name of its nodes. The innermost path with `.weight` or `.bias` appended is a name of a
/// constant that its nodes read. A name that the model itself uses keeps its meaning.
Aliases module_aliases(const OnnxModel& model);

}  // namespace weftc
