// The printer of loop nests: one function for each kind of statement. A target's dialect (dialects/) says how a loop
// runs:
//
//   For{Threads, i, 768}   host:    does not occur; TeamTasks gives ranges to threads instead
//                          device:  for (int64_t i = weft::thread(); i < 768; i += weft::threads()) {
//   For{Vector, i, 768}    host:    #pragma omp simd in front, for an innermost loop
//                          device:  a plain loop of one thread
//
// Only this printer places parentheses: where an operand binds less tightly than its place requires.
#include "backend/print.h"

namespace weftc {

namespace {

/// The number of the operand in a placeholder "$12" at `at`; moves `at` after it.
size_t operand_number(const std::string& pattern, size_t& at) {
  size_t number = 0;
  for (++at; at < pattern.size() && isdigit(static_cast<unsigned char>(pattern[at])); ++at)
    number = number * 10 + static_cast<size_t>(pattern[at] - '0');
  return number;
}

std::string operand_text(const Expr::Operand& operand) {
  const std::string text = text_of(operand.expr);
  return operand.expr.node().binding < operand.needs ? "(" + text + ")" : text;
}

std::string pattern_text(const Expr::Node& node) {
  std::string text;
  for (size_t at = 0; at < node.text.size();) {
    if (node.text[at] == '$')
      text += operand_text(node.operands[operand_number(node.text, at)]);
    else
      text += node.text[at++];
  }
  return text;
}

}  // namespace

std::string text_of(const Expr& expr) {
  const Expr::Node& node = expr.node();
  switch (node.kind) {
    case Expr::Node::Kind::Simple:
      return node.text;
    case Expr::Node::Kind::Index:
      return node.index.text();
    case Expr::Node::Kind::Element:
      return node.text + "[" + text_of(node.operands[0].expr) + "]";
    case Expr::Node::Kind::Pattern:
      return pattern_text(node);
  }
  return "";
}

namespace {

/// "a < b" with the bound in parentheses if necessary.
std::string below(const std::string& variable, const Expr& bound) {
  return text_of(binary(name(variable), "<", bound));
}

// Visits the statements and collects indented lines.
class Printer {
 public:
  explicit Printer(const LoopDialect& dialect) : dialect_(dialect) {}

  std::vector<std::string> lines;

  void print(const Statements& statements) {
    for (const Statement& statement : statements) std::visit([this](const auto& node) { print(node); }, statement.what);
  }

 private:
  void put(const std::string& line) { lines.push_back(std::string(depth_ * 2, ' ') + line); }
  void put_inside(const Statements& body) {
    ++depth_;
    print(body);
    --depth_;
  }
  void put_block(const std::string& head, const Statements& body, const std::string& close = "}") {
    put(head);
    put_inside(body);
    put(close);
  }

  void print(const Let& let) {
    const std::string head = (let.is_mutable ? "" : "const ") + let.type + " " + let.name;
    put(let.value.empty() ? head + ";" : head + " = " + text_of(let.value) + ";");
  }
  void print(const LocalArray& array) {
    put((array.is_aligned ? "alignas(64) " : "") + array.type + " " + array.name + "[" + std::to_string(array.count) +
        "];");
  }
  static std::string assignment(const Store& store) { return text_of(store.to) + " = " + text_of(store.value); }
  void print(const Store& store) { put(assignment(store) + ";"); }
  static std::string update(const Reduce& reduce) {
    const std::string into = text_of(reduce.into), value = text_of(reduce.value);
    switch (reduce.op) {
      case ReduceOp::Sum:
        return is_number(reduce.value, 1) ? "++" + into : into + " += " + value;
      case ReduceOp::Prod:
        return into + " *= " + value;
      case ReduceOp::Max:
        return into + " = " + text_of(call("weft::maximum", {reduce.into, reduce.value}));
      case ReduceOp::Min:
        return into + " = " + text_of(call("weft::minimum", {reduce.into, reduce.value}));
    }
    return "";
  }
  void print(const Reduce& reduce) { put(update(reduce) + ";"); }
  void print(const Call& call) { put(text_of(call.call) + ";"); }
  void print(const Return& leaving) { put("return " + text_of(leaving.value) + ";"); }
  void print(const Comment& comment) { put("// " + comment.text); }
  void print(const Barrier& barrier) { put(dialect_.barrier(barrier.among)); }
  void print(const Line& line) { put(line.text); }

  void print(const For& loop) {
    const bool serial = loop.kind == LoopKind::Serial || loop.kind == LoopKind::Vector ||
                        loop.kind == LoopKind::Together || loop.kind == LoopKind::Unrolled;
    const std::string first = serial ? text_of(loop.first) : dialect_.first(loop.kind);
    const std::string step = !serial                   ? " += " + dialect_.step(loop.kind)
                             : is_number(loop.step, 1) ? ""
                                                       : " += " + text_of(loop.step);
    if (const std::string pragma = dialect_.pragma(loop); !pragma.empty()) lines.push_back(pragma);
    put_block("for (" + loop.type + " " + loop.variable + " = " + first + "; " + below(loop.variable, loop.bound) +
                  "; " + (step.empty() ? "++" + loop.variable : loop.variable + step) + ") {",
              loop.body);
  }
  /// Captures pointers by value: through references the compiler reloads them, and leaves loops scalar.
  void print(const TeamTasks& tasks) {
    put_block("team.parallel(" + text_of(tasks.count) + ", " + std::to_string(tasks.grain) +
                  ", [=](int64_t begin, int64_t end) {",
              tasks.body, "});");
  }
  void print(const TeamRuns& runs) {
    const Expr task = name("task");
    put("for (int64_t task = begin, next; task < end; task = next) {");
    ++depth_;
    put("const int64_t first = " + text_of(binary(task, "%", runs.run)) + ";");
    put("next = std::min(end, " + text_of(binary(binary(task, "-", name("first")), "+", runs.run)) + ");");
    print(runs.body);
    --depth_;
    put("}");
  }
  /// A conditional assignment is one statement on one line; anything else has braces.
  void put_conditional(const std::string& condition, const Statements& body) {
    std::string line;
    for (const Statement& statement : body) {
      const Store* store = std::get_if<Store>(&statement.what);
      const Reduce* reduce = std::get_if<Reduce>(&statement.what);
      if (!store && !reduce) return put_block("if (" + condition + ") {", body);
      line += (line.empty() ? "" : ", ") + (store ? assignment(*store) : update(*reduce));
    }
    put("if (" + condition + ") " + line + ";");
  }
  void print(const If& branch) { put_conditional(text_of(branch.condition), branch.body); }
  void print(const OneLane& one) { put_conditional(dialect_.is_first(one.lanes), one.body); }
  void print(const Callback& callback) { put_block(callback.head, callback.body, callback.close); }
  void print(const Later& later) { print(*later.statements); }
  void print(const Braces& block) { put_block("{", block.body); }

  const LoopDialect& dialect_;
  size_t depth_ = 0;
};

}  // namespace

std::vector<std::string> lines_of(const Statements& statements, const LoopDialect& dialect) {
  Printer printer(dialect);
  printer.print(statements);
  return std::move(printer.lines);
}

std::string joined_lines(const std::vector<std::string>& lines) {
  std::string text;
  for (const std::string& line : lines) text += line + "\n";
  return text;
}

}  // namespace weftc
