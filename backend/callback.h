// Lambdas in kernels, by which a function of the runtime loads elements and puts results.
#pragma once
#include "backend/element.h"

namespace weftc {

/// Puts a lambda: `head` ends with its brace, `close` is what stands behind its body. What `body` computes stays
/// inside, on each lane by itself; `parameters` are names of indices.
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
