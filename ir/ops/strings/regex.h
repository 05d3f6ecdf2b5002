// A regular expression in RE2's syntax as a tree. What only says which of several matches is taken (groups that are
// captured, greed) is left out of it: a string either matches as a whole or does not.
#pragma once
#include <string>

#include "ir/ops/strings/regex_sets.h"

namespace weftc {

/// What holds at a place between two bytes, or at the ends.
enum class Assertion : uint8_t { TextBegin, TextEnd, LineBegin, LineEnd, WordEdge, NoWordEdge };

struct Regex {
  enum class Kind : uint8_t { Empty, Set, Assert, Sequence, Choice, Repeat };
  Kind kind = Kind::Empty;
  PointSet set = {};              // Set: one code point of these
  Assertion assertion{};          // Assert
  std::vector<Regex> parts = {};  // Sequence, Choice; the one of Repeat
  int least = 0, most = -1;       // Repeat; -1: any number of times
};

/// What is wrong with an expression, or which of its parts is not supported.
struct RegexFault {
  bool is_unsupported = false;
  std::string what;
};

/// Reads an expression. False after filling in `fault`.
bool parse_regex(std::string_view text, Regex& pattern, RegexFault& fault);

}  // namespace weftc
