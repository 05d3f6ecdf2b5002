// Scalar expressions of emitted code as trees: names and literals, index expressions, elements of arrays, and patterns
// with operands. Only the printer converts them to text and places parentheses.
//
//   element("x", row * 768 + c)                       x[row * 768 + c]
//   binary(name("y"), "*", binary(a, "+", b))         y * (a + b)
//   call("weft::maximum", {name("y_max"), a})         weft::maximum(y_max, a)
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "ir/kernel/index_expr.h"

namespace weftc {

/// How tightly an expression binds, loosest first. An operand that binds less tightly than its place requires gets
/// parentheses.
enum class Binding : uint8_t { Choice, Or, And, Comparison, Sum, Product, Prefix, Primary };

class Expr {
 public:
  struct Operand;
  struct Node;

  Expr() = default;
  Expr(const IndexExpr& index);
  Expr(int64_t number) : Expr(IndexExpr(number)) {}
  explicit Expr(std::shared_ptr<const Node> node) : node_(std::move(node)) {}

  /// True for the empty expression, which means "none given".
  bool empty() const { return !node_; }
  /// True for a name or a literal, which may be repeated in the text at no cost.
  bool is_simple() const;
  const Node& node() const { return *node_; }

 private:
  std::shared_ptr<const Node> node_;
};

struct Expr::Operand {
  Expr expr;
  Binding needs = Binding::Primary;  // looser ones get parentheses
};

struct Expr::Node {
  enum class Kind : uint8_t {
    Simple,   // `text`: a name or a literal
    Index,    // `index`
    Element,  // `text`[$0]: an element of an array
    Pattern,  // `text`, with operands at $0, $1 ...
  };
  Kind kind;
  std::string text;
  IndexExpr index;
  std::vector<Operand> operands;
  Binding binding = Binding::Primary;
};

/// A variable, or any text like one.
Expr name(std::string text);
Expr literal(std::string text);
/// True for this number only.
bool is_number(const Expr& expr, int64_t number);
/// base[index]
Expr element(const std::string& base, const Expr& index);
/// base + offset: the address of an element; the base alone if the offset is 0.
Expr address(const std::string& base, const IndexExpr& offset);
/// function(a, b)
Expr call(const std::string& function, const std::vector<Expr>& arguments);
/// A pattern in which each operand gets parentheses unless it is primary. The whole binds as `binding`.
Expr pattern(std::string text, const std::vector<Expr>& operands, Binding binding);
/// a + b, a * b, a / b % c, a < b: left-associative operators of C++.
Expr binary(const Expr& a, const std::string& op, const Expr& b);
/// condition ? a : b
Expr choice(const Expr& condition, const Expr& a, const Expr& b);
/// a && b && c; empty without conditions.
Expr all_of(const std::vector<Expr>& conditions);

}  // namespace weftc
