// Builds expression trees. Each operator records how tightly it binds and what its operands must bind, from the
// precedences of C++. The printer alone turns that into parentheses.
#include "backend/expression.h"

#include "ir/base/check.h"

namespace weftc {

using Kind = Expr::Node::Kind;

// How tightly the text of an index expression binds: a sum, a product, or a single name.
static Binding binding_of(const IndexExpr& index) {
  const std::vector<IndexExpr::Term>& terms = index.terms();
  if (terms.empty()) return index.constant() < 0 ? Binding::Prefix : Binding::Primary;
  if (terms.size() > 1 || index.constant()) return Binding::Sum;
  if (!terms[0].scale.is_number()) return Binding::Product;
  if (terms[0].scale.number == 1) return Binding::Primary;  // a digit has parentheses of its own
  return terms[0].scale.number == -1 ? Binding::Prefix : Binding::Product;
}

static Expr make(Expr::Node node) { return Expr(std::make_shared<const Expr::Node>(std::move(node))); }

Expr::Expr(const IndexExpr& index)
    : node_(std::make_shared<const Node>(Node{Kind::Index, {}, index, {}, binding_of(index)})) {}

bool Expr::is_simple() const { return node_ && node_->kind == Kind::Simple; }

bool is_number(const Expr& expr, int64_t number) {
  return !expr.empty() && expr.node().kind == Kind::Index && expr.node().index.is_constant() &&
         expr.node().index.constant() == number;
}

Expr name(std::string text) { return make({Kind::Simple, std::move(text), 0, {}, Binding::Primary}); }

Expr literal(std::string text) { return name(std::move(text)); }

Expr element(const std::string& base, const Expr& index) {
  return make({Kind::Element, base, 0, {{index, Binding::Choice}}, Binding::Primary});
}

Expr address(const std::string& base, const IndexExpr& offset) {
  if (offset == 0) return name(base);
  return make({Kind::Pattern, base + " + $0", 0, {{offset, Binding::Sum}}, Binding::Sum});
}

Expr call(const std::string& function, const std::vector<Expr>& arguments) {
  Expr::Node node{Kind::Pattern, function + "(", 0, {}, Binding::Primary};
  for (const Expr& argument : arguments) {
    node.text += (node.operands.empty() ? "$" : ", $") + std::to_string(node.operands.size());
    node.operands.push_back({argument, Binding::Choice});
  }
  node.text += ")";
  return make(std::move(node));
}

Expr pattern(std::string text, const std::vector<Expr>& operands, Binding binding) {
  Expr::Node node{Kind::Pattern, std::move(text), 0, {}, binding};
  for (const Expr& operand : operands) node.operands.push_back({operand, Binding::Primary});
  return make(std::move(node));
}

Expr binary(const Expr& a, const std::string& op, const Expr& b) {
  static constexpr std::pair<const char*, Binding> kOperators[] = {
      {"+", Binding::Sum},         {"-", Binding::Sum},         {"*", Binding::Product},     {"/", Binding::Product},
      {"%", Binding::Product},     {"<", Binding::Comparison},  {"<=", Binding::Comparison}, {">", Binding::Comparison},
      {">=", Binding::Comparison}, {"==", Binding::Comparison},
  };
  for (const auto& [text, binding] : kOperators) {
    if (op != text) continue;
    const bool compares = binding == Binding::Comparison;
    const Binding tighter = static_cast<Binding>(static_cast<int>(binding) + 1);
    return make({Kind::Pattern, "$0 " + op + " $1", 0, {{a, compares ? tighter : binding}, {b, tighter}}, binding});
  }
  check_failed(__FILE_NAME__, __LINE__, "no operator " + op);
}

Expr choice(const Expr& condition, const Expr& a, const Expr& b) {
  return make({Kind::Pattern,
               "$0 ? $1 : $2",
               0,
               {{condition, Binding::Or}, {a, Binding::Or}, {b, Binding::Choice}},
               Binding::Choice});
}

Expr all_of(const std::vector<Expr>& conditions) {
  if (conditions.empty()) return {};
  if (conditions.size() == 1) return conditions[0];
  Expr::Node node{Kind::Pattern, {}, 0, {}, Binding::And};
  for (const Expr& condition : conditions) {
    node.text += (node.operands.empty() ? "$" : " && $") + std::to_string(node.operands.size());
    node.operands.push_back({condition, Binding::Comparison});
  }
  return make(std::move(node));
}

}  // namespace weftc
