// A text of a generation as data: its state for the next prompt, and the result of the last one.
#pragma once
#include <cstdint>
#include <vector>

#include "weft/numeric.h"

namespace weft {

/// Whole numbers as elements of an array of that type.
std::vector<char> integers(DType dtype, const std::vector<int64_t>& numbers);

/// The state of a text between two prompts.
struct Text {
  int64_t past = -1;           // tokens that its states hold; -1: as many as they begin with
  std::vector<int64_t> unfed;  // the last token of each row, which was chosen but not fed yet
};

/// The result of a prompt.
struct Generated {
  int64_t batch = 0;
  std::vector<int64_t> tokens;   // [batch, new]
  int64_t prompt_tokens = 0;     // of a row, including an unfed token before the prompt
  double prompt_ms = 0;          // from the prompt to the first token
  std::vector<double> token_ms;  // of each further token
  bool is_complete = false;      // false: a rank has complained

  std::vector<int64_t> shape() const { return {batch, batch == 0 ? 0 : int64_t(tokens.size()) / batch}; }
  /// [batch, new] as the program's type of tokens.
  std::vector<char> elements(DType dtype) const;
};

}  // namespace weft
