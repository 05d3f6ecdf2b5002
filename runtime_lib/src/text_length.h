// The number of tokens in the states of a text whose size is fixed: it is stored in a file beside the states.
#pragma once
#include "options.h"
#include "weft/program.h"

namespace weft {

/// Whether the states of a generation have a fixed size.
inline bool counts_tokens(const Generation& generation) {
  return generation.past != nullptr && generation.past_dim < 0;
}

/// The number of tokens in the states of --load-state; 0 without the flag. Throws Failure (wrong input) if the folder
/// lacks it and the model needs it.
int64_t read_text_length(const Options& options, const Generation& generation);
/// Writes it to the folder of --save-state, if there is one.
void write_text_length(const Options& options, int64_t length);

}  // namespace weft
