// The weights of a program: slices of the model's constants, packed as kernels read them
// (runtime_lib/include/weft/image.h).
#pragma once
#include <cstdio>

#include "ir/plan.h"

namespace weftc {

int64_t weights_bytes(const Plan& plan);
/// Writes all segments, each slice page aligned, at memory speed; false if the file cannot be written.
bool write_weights(const Plan& plan, std::FILE* file);
/// Behind a linked program: weights, manifest, footer.
bool append_image(const Plan& plan, const std::string& manifest, const std::string& executable);

}  // namespace weftc
