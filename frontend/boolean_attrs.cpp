#include "frontend/boolean_attrs.h"

#include <algorithm>
#include <iterator>

namespace weftc {

namespace {

/// How ONNX Runtime 1.31 reads a number.
enum class Reading : uint8_t {
  One,      // 1 is yes, any other number no
  NonZero,  // 0 is no, any other number yes
  Strict,   // a number other than 0 and 1 is refused
};

struct BooleanAttr {
  const char* name;
  Reading reading;
};

constexpr BooleanAttr kBooleanAttrs[] = {
    {"align_corners", Reading::NonZero},
    {"allowzero", Reading::One},
    {"antialias", Reading::NonZero},
    {"ceil_mode", Reading::One},
    {"center_point_box", Reading::Strict},
    {"count_include_pad", Reading::NonZero},
    {"detect_negative", Reading::NonZero},
    {"detect_positive", Reading::NonZero},
    {"do_rotary", Reading::Strict},
    {"exclude_outside", Reading::NonZero},
    {"exclusive", Reading::Strict},
    {"fmod", Reading::Strict},
    {"input_forget", Reading::NonZero},
    {"interleaved", Reading::Strict},
    {"inverse", Reading::NonZero},
    {"is_case_sensitive", Reading::Strict},
    {"is_causal", Reading::Strict},
    {"is_packed_batching", Reading::Strict},
    {"keepdims", Reading::One},
    {"largest", Reading::One},
    {"layout", Reading::Strict},
    {"linear_before_reset", Reading::NonZero},
    {"new_axis", Reading::Strict},
    {"noop_with_empty_axes", Reading::One},
    {"normalize_routing_weights", Reading::Strict},
    {"onesided", Reading::NonZero},
    {"periodic", Reading::NonZero},
    {"reverse", Reading::Strict},
    {"rotary_interleaved", Reading::Strict},
    {"saturate", Reading::One},
    {"select_last_index", Reading::NonZero},
    {"sorted", Reading::One},
    {"storage_order", Reading::Strict},
    {"training_mode", Reading::Strict},
    {"transA", Reading::NonZero},
    {"transB", Reading::NonZero},
    {"transBatchA", Reading::NonZero},
    {"transBatchB", Reading::NonZero},
    {"unidirectional", Reading::Strict},
    {"upper", Reading::NonZero},
};

}  // namespace

std::optional<int64_t> boolean_value(std::string_view name, int64_t value) {
  const auto* found = std::find_if(std::begin(kBooleanAttrs), std::end(kBooleanAttrs),
                                   [&](const BooleanAttr& attr) { return attr.name == name; });
  if (found == std::end(kBooleanAttrs) || value == 0 || value == 1) return value;
  switch (found->reading) {
    case Reading::One:
      return 0;
    case Reading::NonZero:
      return 1;
    case Reading::Strict:
      return {};
  }
  return {};
}

}  // namespace weftc
