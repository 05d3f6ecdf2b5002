#include "backend/statement.h"

#include <algorithm>
#include <iterator>

namespace weftc {

Statements* Statement::body() {
  return std::visit(
      [](auto& node) -> Statements* {
        if constexpr (requires { node.body; })
          return &node.body;
        else if constexpr (requires { node.statements; })
          return node.statements.get();
        else
          return nullptr;
      },
      what);
}

bool has_loop(const Statements& statements) {
  return std::any_of(statements.begin(), statements.end(), [](const Statement& s) {
    const bool loops = std::holds_alternative<For>(s.what) || std::holds_alternative<TeamRuns>(s.what);
    return loops || (s.body() && has_loop(*s.body()));
  });
}

bool has_declaration(const Statements& statements) {
  return std::any_of(statements.begin(), statements.end(), [](const Statement& s) {
    const Later* later = std::get_if<Later>(&s.what);
    return std::holds_alternative<Let>(s.what) || std::holds_alternative<LocalArray>(s.what) ||
           (later && has_declaration(*later->statements));
  });
}

void append(Statements& statements, Statements more) {
  statements.insert(statements.end(), std::make_move_iterator(more.begin()), std::make_move_iterator(more.end()));
}

}  // namespace weftc
