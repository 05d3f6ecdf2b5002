// Diagnostics: messages to the user, with positions. Each phase collects them; the command line prints them.
#pragma once
#include <string>
#include <vector>

#include "ir/base/text.h"

namespace weftc {

/// Source of a message: a position in a text file, a node of an ONNX model, or nowhere.
struct Loc {
  enum class Kind { None, Text, Node };
  Kind kind = Kind::None;
  std::string file;     // as the user named it
  int line = 0;         // Text: 1-based
  int column = 0;       // Text: 1-based
  int length = 1;       // Text: characters to underline
  std::string source;   // Text: the whole line, for the caret
  std::string node;     // its name, or else its first output; also for a node in a text model
  std::string op_type;  // of the node
  int node_index = -1;  // Node: position in the imported graph

  static Loc text(std::string file, int line, int column, std::string source = "", int length = 1);
  static Loc in_node(std::string file, std::string node, std::string op_type, int index);
  static Loc in_file(std::string file);
};

/// One message. `id` is stable, and unique for each place that reports it. An id ending in "-unsupported" means exit
/// code 3, "-unwritable" 6.
struct Diagnostic {
  enum class Severity { Error, Warning, Note };
  Severity severity;
  std::string id;
  Loc loc;
  std::string message;
};

class Diags {
 public:
  /// Appends further notes to the message just reported.
  class Report {
   public:
    Report(Diags& diags) : diags_(diags) {}
    template <class... Arguments>
    Report& note(const Loc& loc, std::string_view pattern, const Arguments&... arguments) {
      diags_.add({Diagnostic::Severity::Note, "", loc, format(pattern, arguments...)});
      return *this;
    }

   private:
    Diags& diags_;
  };

  template <class... Arguments>
  Report error(std::string id, const Loc& loc, std::string_view pattern, const Arguments&... arguments) {
    add({Diagnostic::Severity::Error, std::move(id), loc, format(pattern, arguments...)});
    return {*this};
  }
  template <class... Arguments>
  Report warning(std::string id, const Loc& loc, std::string_view pattern, const Arguments&... arguments) {
    add({Diagnostic::Severity::Warning, std::move(id), loc, format(pattern, arguments...)});
    return {*this};
  }

  /// Appends the diagnostics of `other` after those here.
  void append(const Diags& other) {
    for (const Diagnostic& diagnostic : other.all_) add(diagnostic);
  }

  /// True without errors so far.
  bool ok() const { return errors_ == 0; }
  int errors() const { return errors_; }
  const std::vector<Diagnostic>& all() const { return all_; }
  /// The lowest exit code that the errors' ids stand for (README.md). It is 1 for most errors: the input is wrong. It
  /// is 0 without errors.
  int exit_code() const;
  /// All messages as the user sees them, with source lines and carets. Nodes that are not supported for the same reason
  /// share the first one's message.
  std::string text() const;

 private:
  void add(Diagnostic diagnostic);

  std::vector<Diagnostic> all_;
  int errors_ = 0;
};

}  // namespace weftc
