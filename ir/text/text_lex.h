// Lexical rules of the text form, shared by printing and parsing: the form of names, and the lexer.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "ir/base/diag.h"

namespace weftc {

/// True if the name of a value or place can be written without quotes.
bool is_plain_name(std::string_view name);

/// One word, with its position for messages.
struct Token {
  enum class Kind { Word, Number, Text, Value, Place, Numbered, Sign, End };
  Kind kind = Kind::End;
  std::string text;  // the name or sign; strings and quoted names without their quotes
  int line = 1, column = 1;

  bool is(Kind k, std::string_view t) const { return kind == k && text == t; }
};

/// Cuts text into words, numbers, "strings", %values, @places, #numbers and signs; `//` starts a comment.
class Lexer {
 public:
  Lexer(std::string file, std::string_view text, Diags& diags);

  const Token& peek() const { return token_; }
  Token take();
  bool ok() const { return ok_; }
  /// The text from the next token up to `end` on its line; empty, with nothing taken, without an `end`.
  std::string take_up_to(std::string_view end);
  /// Reports at a token, once: errors after the first are consequences.
  bool fail(const Token& at, const std::string& message);

 private:
  /// Reads the next token into token_.
  void advance();
  /// Skips blanks, line ends and comments.
  void skip_blanks();
  bool read_quoted(std::string& into);
  void read_name(Token::Kind kind);
  char at(size_t offset) const { return position_ + offset < text_.size() ? text_[position_ + offset] : '\0'; }

  std::string file_;
  std::string_view text_;
  Diags& diags_;
  size_t position_ = 0, line_start_ = 0;
  int line_ = 1;
  Token token_;
  bool ok_ = true;
};

}  // namespace weftc
