// A case of the targets `model` and `model_bytes`: one ONNX file, which carries in its metadata what the command line
// would say beside it.
#pragma once

namespace weftc::fuzz {

/// The text of a schedule; none: one rank.
inline constexpr const char* kScheduleKey = "weft.schedule";
/// Arguments of --dim, separated by blanks: "batch<=4 seq=3".
inline constexpr const char* kDimsKey = "weft.dims";
/// "host" or "cuda"; none: host.
inline constexpr const char* kTargetKey = "weft.target";

}  // namespace weftc::fuzz
