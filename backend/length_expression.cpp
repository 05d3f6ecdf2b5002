// Writes a sum of products. Lengths are never negative, so C++'s division rounds as a length's does.
#include "backend/length_expression.h"

namespace weftc {

using NameFn = std::function<std::string(const std::string&)>;

static std::string symbol_expression(const LengthSymbol& symbol, const NameFn& name_of) {
  if (symbol.kind == LengthSymbol::Kind::Named) return name_of(symbol.text);
  const std::string a = "(" + length_expression(symbol.operands[0], name_of) + ")",
                    b = "(" + length_expression(symbol.operands[1], name_of) + ")";
  switch (symbol.kind) {
    case LengthSymbol::Kind::Quotient:
      return "(" + a + " / " + b + ")";
    case LengthSymbol::Kind::Remainder:
      return "(" + a + " % " + b + ")";
    case LengthSymbol::Kind::Minimum:
      return "(" + a + " < " + b + " ? " + a + " : " + b + ")";
    default:
      return "(" + a + " > " + b + " ? " + a + " : " + b + ")";
  }
}

std::string length_expression(const Length& length, const NameFn& name_of) {
  std::string text;
  for (const Length::Term& term : length.terms()) {
    const bool is_negative = term.coefficient < 0;
    const int64_t size = is_negative ? -term.coefficient : term.coefficient;
    std::string product;
    for (const LengthSymbolPtr& factor : term.factors)
      product += (product.empty() ? "" : " * ") + symbol_expression(*factor, name_of);
    if (product.empty())
      product = std::to_string(size);
    else if (size != 1)
      product += " * " + std::to_string(size);
    text += text.empty() ? (is_negative ? "-" : "") + product : (is_negative ? " - " : " + ") + product;
  }
  return text.empty() ? "0" : text;
}

std::string part_expression(const std::string& length, int64_t block, const std::string& coordinate) {
  return "weft::Clip{.extent = " + length + ", .block = " + std::to_string(block) + "}.valid(" + coordinate + ")";
}

}  // namespace weftc
