// Statements and expressions as C++, in the dialect of a target (dialects/).
#pragma once
#include "backend/statement.h"

namespace weftc {

/// C++ text of an expression.
std::string text_of(const Expr& expr);

/// Differences between targets in the text of a loop nest.
class LoopDialect {
 public:
  virtual ~LoopDialect() = default;
  /// A line before the loop, or nothing.
  virtual std::string pragma(const For& loop) const = 0;
  /// The first iteration of the loop for a thread, and its step.
  virtual std::string first(LoopKind kind) const = 0;
  virtual std::string step(LoopKind kind) const = 0;
  /// The condition that is true for exactly one of the threads that share a loop of this kind.
  virtual std::string is_first(LoopKind kind) const = 0;
  /// The statement at which the threads of a block wait for each other.
  virtual std::string barrier(LoopKind among) const = 0;
};

/// A comma after which the line of a step may be broken. A character that occurs in no name or literal replaces the
/// space.
inline constexpr char kBreak = '\v';
inline constexpr const char* kComma = ",\v";

/// One line for each statement without a body, indented by two columns for each level.
std::vector<std::string> lines_of(const Statements& statements, const LoopDialect& dialect);

/// The lines as one text.
std::string joined_lines(const std::vector<std::string>& lines);

}  // namespace weftc
