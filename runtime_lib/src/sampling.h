// Choosing the next token of a text from the logits of all tokens.
#pragma once
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "weft/program.h"

namespace weft {

/// A number of Sampling, as a flag (--max-new) and as an array of a request (max_new), a scalar of type port.dtype.
struct Setting {
  Port port;
  const char* flag;
  const char* value;  // for --help
  const char* help;
  double low, high;
  void (*set)(Sampling& sampling, double value);
};
std::span<const Setting> settings();
/// The setting of this name, or nullptr.
const Setting* find_setting(std::string_view name);
/// Throws Failure (`code`) if the number is out of range, or is not an integer but must be. `source` names the culprit.
void check_setting(const Setting& setting, double value, int code, const std::string& source);
/// The sampling with some settings changed, by name.
Sampling with_settings(Sampling sampling, const std::map<std::string, double>& changed);

/// The random number, in [0, 1), that selects the token at `position` of a row of the batch. It depends only on these
/// arguments: word 0 of Philox with key (seed, 2^32 - 1), which no node of a graph has, and counter (row, 0, position,
/// 0).
double draw_for_token(int64_t seed, int64_t row, int64_t position);

/// The token that `draw` selects by inverse transform sampling over the kept tokens, in the order of their numbers.
/// Kept are the top_k most likely tokens, and of these the fewest whose probabilities add up to top_p. Among equally
/// likely tokens the lower number is kept. -1: logits are NaN or infinite.
int64_t choose_token(std::span<const double> logits, const Sampling& sampling, double draw);

}  // namespace weft
