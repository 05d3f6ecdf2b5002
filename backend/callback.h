// Lambdas in kernels: functions of the runtime call them to load elements and store results.
#pragma once
#include "backend/element.h"

namespace weftc {

/// Writes a lambda: `head` ends with its brace, `close` follows its body. All statements of `body` stay inside, on each
/// lane separately; `parameters` are names of indices.
template <class Body>
void put_callback(Elements& elements, const std::string& head, const std::string& close,
                  const std::vector<std::string>& parameters, Body&& body) {
  Scope* const around = elements.scopes.current;
  Scope scope(around, Callback{head, {}, close});
  scope.uniform = false;
  elements.scopes.floor = elements.scopes.current = &scope;
  for (const std::string& parameter : parameters) elements.scopes.own(parameter, &scope);
  body(scope);
  scope.finish();
  elements.scopes.floor = elements.scopes.current = around;
}

}  // namespace weftc
