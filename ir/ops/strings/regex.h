// The tree of a regular expression in RE2's syntax. Syntax that only selects among several matches (captured groups,
// greed) is dropped: a string either matches as a whole or does not.
#pragma once
#include <string>

#include "ir/ops/strings/regex_sets.h"

namespace weftc {

/// A condition on a position between two bytes, or at the ends.
enum class Assertion : uint8_t { TextBegin, TextEnd, LineBegin, LineEnd, WordEdge, NoWordEdge };

struct Regex {
  enum class Kind : uint8_t { Empty, Set, Assert, Sequence, Choice, Repeat };
  Kind kind = Kind::Empty;
  PointSet set = {};              // Set: one code point of these
  Assertion assertion{};          // Assert
  std::vector<Regex> parts = {};  // Sequence, Choice; Repeat has one
  int least = 0, most = -1;       // Repeat; -1: any number of times
};

/// The error in an expression, or the part of it that is not supported.
struct RegexFault {
  bool is_unsupported = false;
  std::string what;
};

/// Parses an expression. False after filling in `fault`.
bool parse_regex(std::string_view text, Regex& pattern, RegexFault& fault);

}  // namespace weftc
