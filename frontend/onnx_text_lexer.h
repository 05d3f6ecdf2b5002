// Tokens of the ONNX text syntax, with their positions.
#pragma once
#include <string>
#include <string_view>
#include <vector>

namespace weftc {

struct TextToken {
  enum class Kind { Name, Int, Real, Text, Mark, Bad, End };
  Kind kind = Kind::End;
  std::string text;  // Name, number or mark ("(", "=>") as written; Text: the contents. Bad: the error
  int line = 1;
  int column = 1;

  bool is(std::string_view mark) const { return kind == Kind::Mark && text == mark; }
};

/// All tokens up to End, or up to the first Bad one. '#' starts a comment.
std::vector<TextToken> tokens_of(std::string_view text);

}  // namespace weftc
