// Tokenizes the text form by hand. One character of look-ahead decides the kind; the first error ends the text.
#include "ir/text/text_lex.h"

#include <algorithm>

#include "ir/base/text.h"

namespace weftc {

/// Characters of names of values and places; %, @ or a quote introduces such a name.
static bool is_name_char(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
         (c != '\0' && std::string_view("_./:-").find(c) != std::string_view::npos);
}

/// Characters of words without a prefix; ':' and '/' are signs there.
static bool is_word_char(char c) { return is_name_char(c) && c != ':' && c != '/'; }

bool is_plain_name(std::string_view name) {
  return !name.empty() && name.find("//") == std::string_view::npos &&
         std::all_of(name.begin(), name.end(), is_name_char);
}

Lexer::Lexer(std::string file, std::string_view text, Diags& diags)
    : file_(std::move(file)), text_(text), diags_(diags) {
  advance();
}

Token Lexer::take() {
  Token taken = std::move(token_);
  advance();
  return taken;
}

std::string Lexer::take_up_to(std::string_view end) {
  const size_t begin = line_start_ + static_cast<size_t>(token_.column) - 1, found = text_.find(end, begin);
  if (found == std::string_view::npos || text_.find('\n', begin) < found) return "";
  position_ = found;
  advance();
  return std::string(trim(text_.substr(begin, found - begin)));
}

bool Lexer::fail(const Token& at, const std::string& message) {
  if (!ok_) return false;
  ok_ = false;
  size_t start = 0;
  for (int line = 1; line < at.line; ++line) start = text_.find('\n', start) + 1;
  const std::string source(text_.substr(start, text_.find('\n', start) - start));
  diags_.error("ir-text", Loc::text(file_, at.line, at.column, source), "{}", message);
  return false;
}

void Lexer::skip_blanks() {
  while (position_ < text_.size()) {
    const char c = at(0);
    if (c == '/' && at(1) == '/')
      position_ = std::min(text_.find('\n', position_), text_.size());
    else if (c == '\n')
      line_start_ = ++position_, ++line_;
    else if (c == ' ' || c == '\t' || c == '\r')
      ++position_;
    else
      return;
  }
}

/// Reads a quoted text from its opening quote; false without a closing quote or with a wrong escape.
bool Lexer::read_quoted(std::string& into) {
  size_t end = position_ + 1;
  while (end < text_.size() && text_[end] != '"' && text_[end] != '\n') end += text_[end] == '\\' ? 2 : 1;
  if (end >= text_.size() || text_[end] != '"') return false;
  const bool good = unquote(text_.substr(position_, end + 1 - position_), into);
  position_ = end + 1;
  return good;
}

/// Reads a name after % or @, plain or quoted.
void Lexer::read_name(Token::Kind kind) {
  token_.kind = kind;
  ++position_;
  if (at(0) == '"') {
    if (!read_quoted(token_.text)) fail(token_, "a quoted name has no end or a wrong escape");
    return;
  }
  while (is_name_char(at(0)) && !(at(0) == '/' && at(1) == '/')) token_.text += text_[position_++];
  if (token_.text.empty()) fail(token_, "a name is missing");
}

void Lexer::advance() {
  skip_blanks();
  token_ = {Token::Kind::End, "", line_, static_cast<int>(position_ - line_start_) + 1};
  if (position_ >= text_.size() || !ok_) return;
  const char c = at(0);
  if (c == '%' || c == '@') return read_name(c == '%' ? Token::Kind::Value : Token::Kind::Place);
  if (c == '"') {
    token_.kind = Token::Kind::Text;
    if (!read_quoted(token_.text)) fail(token_, "a string has no end or a wrong escape");
    return;
  }
  const auto digit = [](char d) { return d >= '0' && d <= '9'; };
  if (digit(c) || c == '-' || c == '#') {
    token_.kind = c == '#' ? Token::Kind::Numbered : Token::Kind::Number;
    if (c == '#') ++position_;
    if (c == '-' && at(1) == '>') {
      token_ = {Token::Kind::Sign, "->", token_.line, token_.column};
      position_ += 2;
      return;
    }
    // A sign may follow an exponent.
    while (is_word_char(at(0)) || at(0) == '+') token_.text += text_[position_++];
    return;
  }
  if (is_word_char(c) && c != '.') {
    token_.kind = Token::Kind::Word;
    while (is_word_char(at(0))) token_.text += text_[position_++];
    return;
  }
  token_.kind = Token::Kind::Sign;
  const std::string_view rest = text_.substr(position_);
  token_.text = rest.starts_with("...") ? "..." : rest.starts_with("<=") ? "<=" : std::string(1, c);
  position_ += token_.text.size();
}

}  // namespace weftc
