// The floating types of at most 8 bits, as ONNX defines them: from numbers to codes and back. What a code means follows
// from a few numbers of its format; runtime_lib/include/weft/small_types.h says the same for emitted programs.
#pragma once
#include <cstdint>

#include "ir/type.h"

namespace weftc {

/// Where float8e8m0 takes a number that lies between two powers of two.
enum class PowerRounding : uint8_t { Up, Down, Nearest };

struct SmallFloatRounding {
  bool saturates = true;  // what is too large becomes the largest number; else NaN, or an infinity where there is one
  PowerRounding power = PowerRounding::Up;
};

double small_float_to_double(DType dtype, uint8_t code);
/// To nearest, ties to even.
uint8_t double_to_small_float(DType dtype, double value, SmallFloatRounding rounding = {});

}  // namespace weftc
