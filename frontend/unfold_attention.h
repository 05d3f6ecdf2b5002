// Replaces FlexAttention (ai.onnx.preview 1) by simpler nodes.
#pragma once
#include "frontend/onnx_model.h"
#include "ir/base/diag.h"

namespace weftc {

/// Replaces each FlexAttention by AttentionScores, its score_mod, Softmax, its prob_mod and AttentionMix. Functions
/// must have been inlined. False after reporting.
bool unfold_attention(OnnxModel& model, Diags& diags);

}  // namespace weftc
