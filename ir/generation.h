// A loop over tokens inside the executable, with the inputs that it feeds and the outputs that it reads.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace weftc {

/// How the next token is chosen by default; options at run time override it (`weft::Sampling`).
struct Sampling {
  int64_t max_new = 1;
  double temperature = 0;  // 0: greedy
  int64_t top_k = 0;       // 0: all
  double top_p = 1;
  int64_t seed = 0;
};

/// Names of inputs and outputs; empty if the model lacks one.
struct Generation {
  std::string tokens, logits, positions, mask;
  std::string past;      // a state that holds the tokens fed so far; without states the whole text is fed each time
  int64_t past_dim = 0;  // its dim that grows by a row a token; -1: the size is fixed, and the executable counts
  int64_t room = 0;      // the longest text that can be fed
  std::vector<int64_t> end;
  Sampling sampling;
};

}  // namespace weftc
