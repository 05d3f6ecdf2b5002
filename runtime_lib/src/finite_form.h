// The bit pattern of non-finite numbers of a type.
#pragma once
#include "weft/program.h"

namespace weft {

/// All bits of `exponent` are set; if any bit of `fraction` is set too, it is NaN.
template <class Bits>
struct FiniteForm {
  Bits exponent, fraction;
};

constexpr FiniteForm<uint32_t> kFormF32 = {0x7f800000, 0x7fffff};
constexpr FiniteForm<uint64_t> kFormF64 = {0x7ff0000000000000, 0xfffffffffffff};
constexpr FiniteForm<uint16_t> kFormF16 = {0x7c00, 0x3ff}, kFormBF16 = {0x7f80, 0x7f};

/// True for the types that have such numbers.
constexpr bool is_real(DType dtype) {
  return dtype == DType::F32 || dtype == DType::F64 || dtype == DType::F16 || dtype == DType::BF16;
}

/// Calls f(form) with the form of a type for which is_real holds.
template <class F>
void with_form(DType dtype, F&& f) {
  if (dtype == DType::F32) f(kFormF32);
  if (dtype == DType::F64) f(kFormF64);
  if (dtype == DType::F16) f(kFormF16);
  if (dtype == DType::BF16) f(kFormBF16);
}

}  // namespace weft
