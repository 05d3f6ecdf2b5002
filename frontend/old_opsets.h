// Converts nodes of opsets 1 to 6 to the form of opset 7, the oldest that op records read.
#pragma once
#include "frontend/onnx_model.h"
#include "ir/base/diag.h"

namespace weftc {

/// The oldest opset of ai.onnx that op records can read.
inline constexpr int kOldestForm = 7;

/// The first opset of ai.onnx whose form of this operator is known; kOldestForm if none is.
int first_old_form(const std::string& op_type);

/// Rewrites each node of ai.onnx with an opset below kOldestForm to its form in opset 7, with the same meaning. Nodes
/// whose old form is not known keep their opset, which the importer then refuses by name. False after reporting an
/// error in a node.
bool modernise_nodes(OnnxModel& model, Diags& diags);

}  // namespace weftc
