// Tokenizes ONNX text. An invalid character or string becomes a Bad token, which the parser reports with the token that
// it expected.
#include "frontend/onnx_text_lexer.h"

#include "ir/base/text.h"

namespace weftc {

namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_letter(char c) { return ((c | 32) >= 'a' && (c | 32) <= 'z') || c == '_'; }

/// One pass over the text with the position of each character.
class Lexer {
 public:
  explicit Lexer(std::string_view text) : text_(text) {}
  TextToken next();

 private:
  char peek(size_t ahead = 0) const { return at_ + ahead < text_.size() ? text_[at_ + ahead] : '\0'; }
  void advance();
  void skip();
  void number(TextToken& token);
  void quoted(TextToken& token);

  std::string_view text_;
  size_t at_ = 0;
  int line_ = 1;
  int column_ = 1;
};

void Lexer::advance() {
  if (text_[at_++] == '\n') {
    ++line_;
    column_ = 1;
  } else {
    ++column_;
  }
}

void Lexer::skip() {
  while (at_ < text_.size()) {
    const char c = peek();
    if (c == '#') {
      while (at_ < text_.size() && peek() != '\n') advance();
    } else if (c == ' ' || c == '\t' || c == '\n' || c == '\r') {
      advance();
    } else {
      return;
    }
  }
}

/// An integer, or a float if it has a point or an exponent.
void Lexer::number(TextToken& token) {
  const size_t start = at_;
  token.kind = TextToken::Kind::Int;
  if (peek() == '-' || peek() == '+') advance();
  while (is_digit(peek())) advance();
  if (peek() == '.') {
    token.kind = TextToken::Kind::Real;
    advance();
    while (is_digit(peek())) advance();
  }
  if ((peek() | 32) == 'e') {
    token.kind = TextToken::Kind::Real;
    advance();
    if (peek() == '-' || peek() == '+') advance();
    if (!is_digit(peek())) token.kind = TextToken::Kind::Bad;
    while (is_digit(peek())) advance();
  }
  token.text = text_.substr(start, at_ - start);
  if (token.kind == TextToken::Kind::Bad) token.text = "the number '" + token.text + "' has no exponent";
}

void Lexer::quoted(TextToken& token) {
  const size_t start = at_;
  advance();
  while (at_ < text_.size() && peek() != '"' && peek() != '\n') {
    if (peek() == '\\' && at_ + 1 < text_.size()) advance();
    advance();
  }
  if (peek() != '"') {
    token.kind = TextToken::Kind::Bad;
    token.text = "the string has no closing quote on its line";
    return;
  }
  advance();
  token.kind = TextToken::Kind::Text;
  if (unquote(text_.substr(start, at_ - start), token.text)) return;
  token.kind = TextToken::Kind::Bad;
  token.text = "the string has an unknown escape; known are \\\" \\\\ \\n \\t \\xNN";
}

TextToken Lexer::next() {
  skip();
  TextToken token;
  token.line = line_;
  token.column = column_;
  if (at_ >= text_.size()) return token;
  const char c = peek();
  const size_t start = at_;
  const bool sign = c == '-' || c == '+';
  if (is_letter(c) || (sign && is_letter(peek(1)))) {
    token.kind = TextToken::Kind::Name;
    do advance();
    while (is_letter(peek()) || is_digit(peek()));
    token.text = text_.substr(start, at_ - start);
  } else if (is_digit(c) || ((sign || c == '.') && is_digit(peek(1))) ||
             (sign && peek(1) == '.' && is_digit(peek(2)))) {
    number(token);
  } else if (c == '"') {
    quoted(token);
  } else if (std::string_view("(){}[]<>,=:.?@").find(c) != std::string_view::npos) {
    token.kind = TextToken::Kind::Mark;
    const bool arrow = c == '=' && peek(1) == '>';
    advance();
    if (arrow) advance();
    token.text = arrow ? "=>" : std::string(1, c);
  } else {
    token.kind = TextToken::Kind::Bad;
    token.text = "character '" + printable(std::string(1, c)) + "' has no meaning here";
  }
  return token;
}

}  // namespace

std::vector<TextToken> tokens_of(std::string_view text) {
  Lexer lexer(text);
  std::vector<TextToken> tokens;
  do tokens.push_back(lexer.next());
  while (tokens.back().kind != TextToken::Kind::End && tokens.back().kind != TextToken::Kind::Bad);
  return tokens;
}

}  // namespace weftc
