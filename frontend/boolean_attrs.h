// Integer attributes that are questions. ONNX writes them as 0 and 1; what another number says is ONNX Runtime's
// answer.
#pragma once
#include <cstdint>
#include <optional>
#include <string_view>

namespace weftc {

/// 0 or 1 for the attribute of that name. Nothing where no runtime takes the number; the number itself where the
/// attribute is no question.
std::optional<int64_t> boolean_value(std::string_view name, int64_t value);

}  // namespace weftc
