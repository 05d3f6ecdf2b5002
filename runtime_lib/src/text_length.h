// How many tokens the states of a text hold, where they have a fixed size and do not say it: a file beside theirs.
#pragma once
#include "options.h"
#include "weft/program.h"

namespace weft {

/// True where the states of a generation have a fixed size.
inline bool counts_tokens(const Generation& generation) {
  return generation.past != nullptr && generation.past_dim < 0;
}

/// How many tokens the states of --load-state hold; 0 without. Throws Failure (wrong input) where the folder does not
/// say it and the model asks for it.
int64_t read_text_length(const Options& options, const Generation& generation);
/// Writes it to the folder of --save-state, if there is one.
void write_text_length(const Options& options, int64_t length);

}  // namespace weft
