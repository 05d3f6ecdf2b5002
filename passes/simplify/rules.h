// The rules of `simplify`, by topic.
#pragma once
#include "passes/simplify/rule.h"

namespace weftc {

/// Arithmetic that changes nothing: x + 0, x * 1, -(-x), casts without effect.
std::span<const Rule> arithmetic_rules();
/// Views of views.
std::span<const Rule> view_rules();
/// Borders in front of convolutions and pooling.
std::span<const Rule> window_rules();
/// Factors and normalisations of channels, which become part of weights.
std::span<const Rule> weight_rules();
std::span<const Rule> quantized_rules();  // products of integers with scales

}  // namespace weftc
