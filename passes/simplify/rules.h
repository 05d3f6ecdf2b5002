// The rules of `simplify`, by topic.
#pragma once
#include "passes/simplify/rule.h"

namespace weftc {

/// Arithmetic that changes nothing: x + 0, x * 1, -(-x), casts without effect.
std::span<const Rule> arithmetic_rules();
/// Views of views.
std::span<const Rule> view_rules();
/// Borders before convolutions and pooling.
std::span<const Rule> window_rules();
/// Factors and normalisations of channels, which become part of weights.
std::span<const Rule> weight_rules();
/// Products and views of dequantized numbers, which become products and views of integers.
std::span<const Rule> quantized_rules();

}  // namespace weftc
