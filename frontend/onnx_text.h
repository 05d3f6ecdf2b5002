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

/// The functions of a text that contains only functions, as a model without a graph; nothing after reporting.
/// Attributes of the compiler's own functions are not rounded to floats.
std::optional<OnnxModel> read_onnx_functions(const std::string& file, const std::string& text, Diags& diags,
                                             bool are_own = false);

/// Parses a type and dims such as `int64[N, 3]`; nothing for any other text.
std::optional<OnnxValue> read_onnx_type(const std::string& name, const std::string& text);

/// Element `index` of that generator.
double random_weight(uint32_t seed, uint64_t index, double scale);

}  // namespace weftc
