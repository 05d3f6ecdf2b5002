// The ONNX text syntax (.onnxtxt).
#pragma once
#include <optional>
#include <string>

#include "frontend/onnx_model.h"

namespace weftc {

/// Reads a model in ONNX's text syntax, as onnx.parser does, with one addition: an initialiser may be written
///     float[256, 1024] w = random(7, 0.02)
/// (seed, scale): uniform in [-scale, scale). Element i is word 0 of Philox4x32-10 with key (seed, 0) and counter
/// (i, i >> 32, 0, 0), as (word >> 8) * 2^-24 * 2 * scale - scale.
/// Names that are not identifiers are written in double quotes. Nothing after reporting.
std::optional<OnnxModel> read_onnx_text(const std::string& file, const std::string& text, Diags& diags);

/// That generator's element `index`.
double random_weight(uint32_t seed, uint64_t index, double scale);

}  // namespace weftc
