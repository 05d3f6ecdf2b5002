#include "ir/name_pattern.h"

#include <algorithm>
#include <charconv>

namespace weftc {

/// "0..5"
std::optional<NamePattern::Piece> NamePattern::range_of(const std::string& text) {
  const size_t dots = text.find("..");
  if (dots == std::string::npos) return {};
  Piece piece{Piece::Kind::Range, "", 0, 0};
  const char *begin = text.data(), *end = begin + text.size();
  const auto first = std::from_chars(begin, begin + dots, piece.first);
  const auto last = std::from_chars(begin + dots + 2, end, piece.last);
  if (first.ec != std::errc() || first.ptr != begin + dots || last.ec != std::errc() || last.ptr != end) return {};
  return piece;
}

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
      const std::string inside = text.substr(i + 1, close - i - 1);
      if (std::optional<Piece> range = range_of(inside)) {
        range->text = "*" + std::to_string(stars++);
        pieces.push_back(std::move(*range));
      } else {
        pieces.push_back({Piece::Kind::Variable, inside});
      }
      i = close;
    } else if (text[i] == '*') {
      pieces.push_back({Piece::Kind::Any, "*" + std::to_string(stars++)});
    } else {
      literal(text[i]);
    }
  }
  return pieces;
}

std::string NamePattern::Piece::unbound() const {
  if (kind == Kind::Any) return "*";
  return "{" + (kind == Kind::Range ? std::to_string(first) + ".." + std::to_string(last) : text) + "}";
}

NamePattern::NamePattern(const std::string& text) : pieces_(pieces_of(text)) {}

std::string NamePattern::start() const {
  const bool is_literal = !pieces_.empty() && pieces_.front().kind == Piece::Kind::Literal;
  return is_literal ? pieces_.front().text.substr(0, pieces_.front().text.find('.')) : "";
}

bool NamePattern::has_variables() const {
  return std::ranges::any_of(pieces_, [](const Piece& piece) { return piece.kind == Piece::Kind::Variable; });
}

bool NamePattern::match_literal(size_t piece, const std::string& name, size_t at, Bindings& bound) const {
  const std::string& text = pieces_[piece].text;
  if (name.size() - at < text.size()) return false;
  for (size_t i = 0; i < text.size(); ++i)
    if (name[at + i] != text[i] && !(text[i] == '.' && name[at + i] == '/')) return false;
  return match(piece + 1, name, at + text.size(), bound);
}

bool NamePattern::match_range(size_t piece, const std::string& name, size_t at, Bindings& bound) const {
  int64_t number = 0;
  const char* begin = name.data() + at;
  const auto [end, wrong] = std::from_chars(begin, name.data() + name.size(), number);
  if (wrong != std::errc() || number < pieces_[piece].first || number > pieces_[piece].last) return false;
  Bindings tried = bound;
  tried[pieces_[piece].text] = std::string(begin, end);
  if (!match(piece + 1, name, at + static_cast<size_t>(end - begin), tried)) return false;
  bound = std::move(tried);
  return true;
}

/// Matches `name` from position `at` against the pieces from `piece` on.
bool NamePattern::match(size_t piece, const std::string& name, size_t at, Bindings& bound) const {
  if (piece == pieces_.size()) return at == name.size();
  const Piece& p = pieces_[piece];
  if (p.kind == Piece::Kind::Literal) return match_literal(piece, name, at, bound);
  if (p.kind == Piece::Kind::Range) return match_range(piece, name, at, bound);
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
  if (match(0, name, 0, bound)) return bound;
  bound.clear();
  if (name.starts_with('/') && match(0, name, 1, bound)) return bound;
  return {};
}

std::string substitute(const std::string& text, const Bindings& bindings) {
  std::string out;
  for (const NamePattern::Piece& p : NamePattern::pieces_of(text)) {
    if (p.kind == NamePattern::Piece::Kind::Literal)
      out += p.text;
    else if (bindings.contains(p.text))
      out += bindings.at(p.text);
    else
      out += p.unbound();
  }
  return out;
}

}  // namespace weftc
