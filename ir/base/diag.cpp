// Prints diagnostics with their source line and a caret, and computes the exit code.
#include "ir/base/diag.h"

#include <algorithm>
#include <map>

namespace weftc {

Loc Loc::text(std::string file, int line, int column, std::string source, int length) {
  Loc loc;
  loc.kind = Kind::Text;
  loc.file = std::move(file);
  loc.line = line;
  loc.column = column;
  loc.source = std::move(source);
  loc.length = length;
  return loc;
}

Loc Loc::in_node(std::string file, std::string node, std::string op_type, int index) {
  Loc loc;
  loc.kind = Kind::Node;
  loc.file = std::move(file);
  loc.node = std::move(node);
  loc.op_type = std::move(op_type);
  loc.node_index = index;
  return loc;
}

Loc Loc::in_file(std::string file) {
  Loc loc;
  loc.file = std::move(file);
  return loc;
}

void Diags::add(Diagnostic diagnostic) {
  if (diagnostic.severity == Diagnostic::Severity::Error) ++errors_;
  all_.push_back(std::move(diagnostic));
}

int Diags::exit_code() const {
  int code = 0;
  for (const Diagnostic& d : all_) {
    if (d.severity != Diagnostic::Severity::Error) continue;
    const int of_this = d.id.ends_with("-unsupported") ? 3 : d.id.ends_with("-unwritable") ? 6 : 1;
    code = code == 0 ? of_this : std::min(code, of_this);
  }
  return code;
}

static std::string position(const Loc& loc) {
  const std::string file = printable(loc.file);
  switch (loc.kind) {
    case Loc::Kind::None:
      return file.empty() ? "" : file + ": ";
    case Loc::Kind::Text:
      return file + ":" + std::to_string(loc.line) + ":" + std::to_string(loc.column) + ": ";
    case Loc::Kind::Node:
      return format("{}: node '{}' ({}, #{}): ", file, printable(loc.node), printable(loc.op_type), loc.node_index);
  }
  return "";
}

static std::string caret(const Loc& loc) {
  if (loc.kind != Loc::Kind::Text || loc.source.empty()) return "";
  const std::string number = std::to_string(loc.line);
  std::string under;
  const int shown = std::min<int>(loc.column - 1, static_cast<int>(loc.source.size()));
  for (int i = 0; i < shown; ++i) under += loc.source[i] == '\t' ? '\t' : ' ';
  under += '^';
  under.append(std::max(0, std::min<int>(loc.length, 120) - 1), '~');
  return format("  {} | {}\n  {} | {}\n", number, loc.source, std::string(number.size(), ' '), under);
}

namespace {

/// Why a node is not supported, without the quoted names, so that nodes refused for the same reason compare equal.
/// Empty for other diagnostics.
std::string unsupported_reason(const Diagnostic& d) {
  if (d.severity != Diagnostic::Severity::Error || !d.id.ends_with("-unsupported") || d.loc.node.empty()) return "";
  std::string reason = d.id + " " + d.loc.op_type + " ";
  bool quoted = false;
  for (const char c : d.message) {
    if (c == '\'') quoted = !quoted;
    if (!quoted) reason += c;
  }
  return reason;
}

/// Nodes that are refused for the same reason, in order.
using NodesByReason = std::map<std::string, std::vector<const Diagnostic*>>;

/// "; so for 57 nodes: 'a', 'b', 'c' and 54 more", or nothing for one node.
std::string alike(const std::vector<const Diagnostic*>& refused) {
  constexpr size_t kShown = 8;
  if (refused.size() < 2) return "";
  std::vector<std::string> names;
  for (const Diagnostic* d : refused)
    if (names.size() < kShown) names.push_back("'" + printable(d->loc.node) + "'");
  const size_t more = refused.size() - names.size();
  return format("; so for {} nodes: {}", refused.size(), join(names, ", ")) +
         (more ? format(" and {} more", more) : "");
}

}  // namespace

std::string Diags::text() const {
  std::string out;
  NodesByReason nodes;
  for (const Diagnostic& d : all_)
    if (const std::string reason = unsupported_reason(d); !reason.empty()) nodes[reason].push_back(&d);
  bool is_told = false;  // reported with the first node of its kind; so are its notes
  for (const Diagnostic& d : all_) {
    const std::string reason = unsupported_reason(d);
    if (d.severity != Diagnostic::Severity::Note) is_told = !reason.empty() && nodes[reason].front() != &d;
    if (is_told) continue;
    const char* severity = d.severity == Diagnostic::Severity::Error     ? "error"
                           : d.severity == Diagnostic::Severity::Warning ? "warning"
                                                                         : "note";
    out += position(d.loc) + severity + ": " + d.message + (reason.empty() ? "" : alike(nodes[reason]));
    if (!d.id.empty()) out += " [" + d.id + "]";
    out += "\n" + caret(d.loc);
  }
  return out;
}

}  // namespace weftc
