// Nodes of opsets 1 to 6 in the form of opset 7, which is the oldest that op records read.
#pragma once
#include "frontend/onnx_model.h"
#include "ir/base/diag.h"

namespace weftc {

/// The oldest opset of ai.onnx in whose form an op record reads a node.
inline constexpr int kOldestForm = 7;

/// The first opset of ai.onnx of which this operator is read so, or kOldestForm where that is not known.
int first_old_form(const std::string& op_type);

/// Rewrites each node of ai.onnx whose opset is below kOldestForm so that opset 7 reads it with the meaning that it
/// had, and gives it that opset. Nodes of which this is not known keep theirs, which the importer then refuses by name.
/// False after reporting what is wrong with a node.
bool modernise_nodes(OnnxModel& model, Diags& diags);

}  // namespace weftc
