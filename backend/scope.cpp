// Closes a scope: its loop or block, with its contents, becomes one statement of the parent.
#include "backend/scope.h"

namespace weftc {

void Scope::finish() {
  *node_->body() = std::move(body_);
  parent->put(std::move(*node_));
  append(parent->body_, std::move(after_));
  parent->row_values.merge(computed);
}

}  // namespace weftc
