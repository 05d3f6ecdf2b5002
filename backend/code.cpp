#include "backend/code.h"

namespace weftc {

void Scope::finish() {
  const bool block = !open.empty();
  if (!pragma.empty()) parent->put(pragma);
  if (block) parent->put(open);
  for (std::string& line : lines) parent->put(block && line[0] != '#' ? "  " + line : std::move(line));
  if (block) parent->put(close);
  for (std::string& line : behind) parent->put(std::move(line));
  parent->arrays.merge(filled);
}

std::string block_text(const std::vector<std::string>& lines, int spaces) {
  const std::string indent(static_cast<size_t>(spaces), ' ');
  std::string text;
  for (const std::string& line : lines) text += line[0] == '#' ? line + "\n" : indent + line + "\n";
  return text;
}

}  // namespace weftc
