// Properties of a node that follow from its op record: whether it can be read, its name, the graphs that it owns.
#pragma once
#include <string>
#include <vector>

#include "frontend/onnx_model.h"

namespace weftc {

/// The names of graph attributes that become regions, in the regions' order; empty for ops without.
std::vector<std::string> region_attrs(const OnnxNode& node);
/// True for Constant, and for the compiler's own `weft.Constant`, in which `value_float` has 64 bits.
bool is_constant_node(const OnnxNode& node);
/// True if the importer can read the node: by a record, or as Constant.
bool is_supported(const OnnxNode& node);
/// Reports every unsupported node, one message for each op. True if all nodes are supported.
bool check_supported(const OnnxModel& model, Diags& diags);
/// "Gelu" or "com.microsoft.Gelu".
std::string full_op_name(const OnnxNode& node);

}  // namespace weftc
