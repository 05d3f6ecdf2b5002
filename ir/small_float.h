// Converts numbers to and from the floating types of at most 8 bits that ONNX defines. The meaning of a code follows
// from a few parameters of its format. runtime_lib/include/weft/small_types.h has the same for emitted programs.
#pragma once
#include <cstdint>

#include "ir/type.h"

namespace weftc {

/// How a number between two powers of two is rounded to float8e8m0.
enum class PowerRounding : uint8_t { Up, Down, Nearest };

struct SmallFloatRounding {
  bool saturates = true;  // a number that is too large becomes the largest number; else NaN, or an infinity if the
                          // format has one
  PowerRounding power = PowerRounding::Up;
};

double small_float_to_double(DType dtype, uint8_t code);
/// To nearest, ties to even.
uint8_t double_to_small_float(DType dtype, double value, SmallFloatRounding rounding = {});

}  // namespace weftc
