// The weights of a program: slices of the model's constants, packed as kernels read them
// (runtime_lib/include/weft/image.h).
#pragma once
#include <cstdio>
#include <vector>

#include "ir/plan.h"

namespace weftc {

/// The plans of an executable: one, or one for each variant. Variants share all segments; weights at equal offsets are
/// equal.
using Plans = std::vector<const Plan*>;

int64_t weights_bytes(const Plan& plan);
/// Writes all segments, each slice page aligned, at memory speed; false if the file cannot be written.
bool write_weights(const Plans& plans, std::FILE* file);
/// Adds weights, manifest and footer to a linked program, as a section of its own.
bool append_image(const Plans& plans, const std::string& manifest, const std::string& executable);

}  // namespace weftc
