#include "ir/name_pattern.h"

namespace weftc {

std::vector<NamePattern::Piece> NamePattern::pieces_of(const std::string& text) {
  std::vector<Piece> pieces;
  int stars = 0;
  const auto literal = [&](char c) {
    if (pieces.empty() || pieces.back().kind != Piece::Kind::Literal) pieces.push_back({Piece::Kind::Literal, ""});
    pieces.back().text += c;
  };
  for (size_t i = 0; i < text.size(); ++i) {
    const size_t close = text[i] == '{' ? text.find('}', i) : std::string::npos;
    if (close != std::string::npos) {
      pieces.push_back({Piece::Kind::Variable, text.substr(i + 1, close - i - 1)});
      i = close;
    } else if (text[i] == '*') {
      pieces.push_back({Piece::Kind::Any, "*" + std::to_string(stars++)});
    } else {
      literal(text[i]);
    }
  }
  return pieces;
}

NamePattern::NamePattern(const std::string& text) : pieces_(pieces_of(text)) {}

std::string NamePattern::start() const {
  const bool is_literal = !pieces_.empty() && pieces_.front().kind == Piece::Kind::Literal;
  return is_literal ? pieces_.front().text : "";
}

/// Matches `name` from position `at` against the pieces from `piece` on.
bool NamePattern::match(size_t piece, const std::string& name, size_t at, Bindings& bound) const {
  if (piece == pieces_.size()) return at == name.size();
  const Piece& p = pieces_[piece];
  if (p.kind == Piece::Kind::Literal)
    return name.compare(at, p.text.size(), p.text) == 0 && match(piece + 1, name, at + p.text.size(), bound);
  if (p.kind == Piece::Kind::Variable && bound.contains(p.text)) {
    const std::string& value = bound[p.text];
    return name.compare(at, value.size(), value) == 0 && match(piece + 1, name, at + value.size(), bound);
  }
  const bool variable = p.kind == Piece::Kind::Variable;
  for (size_t length = variable ? 1 : 0; at + length <= name.size(); ++length) {
    if (variable && (name[at + length - 1] == '.' || name[at + length - 1] == '/')) return false;
    Bindings tried = bound;
    tried[p.text] = name.substr(at, length);
    if (match(piece + 1, name, at + length, tried)) {
      bound = std::move(tried);
      return true;
    }
  }
  return false;
}

std::optional<Bindings> NamePattern::match(const std::string& name) const {
  Bindings bound;
  if (!match(0, name, 0, bound)) return {};
  return bound;
}

std::string substitute(const std::string& text, const Bindings& bindings) {
  std::string out;
  for (const NamePattern::Piece& p : NamePattern::pieces_of(text)) {
    if (p.kind == NamePattern::Piece::Kind::Literal)
      out += p.text;
    else if (bindings.contains(p.text))
      out += bindings.at(p.text);
    else
      out += p.kind == NamePattern::Piece::Kind::Any ? "*" : "{" + p.text + "}";
  }
  return out;
}

}  // namespace weftc
