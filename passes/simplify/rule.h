// Rewrite rules as records: a pattern, a condition, and the replacement of the match.
//
//   // -(-x)  ->  x
//   {"double-negation", op(OpKind::Neg, {op(OpKind::Neg, {any("x")})}), nullptr,
//    [](Rewriter&, const Match& match) { return match["x"]; }}
//
// Laws. A rule goes one way, and its result is never worse: fewer ops, then fewer elements moved, and no result less
// precise than before. The line of algebra above a rule is required. `when` changes nothing. There is no rule for
// commutation: the matcher tries both orders of the operands of Add and Mul. Each rule has a test in which it fires and
// a near miss. A rewrite that cannot be written so is a pass.
#pragma once
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ir/builder.h"

namespace weftc {

/// A pattern, from the result back to the operands.
struct Pattern {
  std::vector<OpKind> kinds;      // the op that makes the value is one of these; empty: any value
  std::vector<Pattern> operands;  // of the op, from the first on; later operands may be any
  std::string name;               // the name under which Match knows the value
  bool is_read_once = false;      // by one operand of one op, or by one output

  Pattern as(std::string bound) const;
  Pattern read_once() const;
};
Pattern any(std::string name);
Pattern constant(std::string name);
Pattern op(OpKind kind, std::vector<Pattern> operands);
/// An op of one of several kinds.
Pattern op(std::vector<OpKind> kinds, std::vector<Pattern> operands);

/// Where a pattern was found. The root is the op that the rule replaces.
class Match {
 public:
  Match(const Module& module, const Graph& graph, OpId root) : module_(module), graph_(graph), root_(root) {}

  /// The value that matched the pattern of that name.
  ValueId operator[](std::string_view name) const;
  const TensorType& type(std::string_view name) const { return graph_.type((*this)[name]); }
  /// The op that makes the named value.
  const Op& op(std::string_view name) const { return graph_.producer_op((*this)[name]); }
  const Op& root() const { return graph_.op(root_); }
  const TensorType& root_type() const { return graph_.type(root().outputs[0]); }
  /// The elements of a value that a Constant makes.
  Tensor tensor(ValueId value) const;
  /// True if the first of these elements is another number than `value`, which is known without reading all.
  bool begins_otherwise(ValueId constant, double value) const;
  bool is_constant(ValueId value) const { return graph_.producer_op(value).kind == OpKind::Constant; }
  /// True if an op like this one is legal and its result has the type of the root's.
  bool fits_root(const Op& changed) const;
  /// All ops that the pattern names by kind, the root first.
  const std::vector<OpId>& ops() const { return ops_; }
  const Graph& graph() const { return graph_; }

  /// Matches the pattern from a value on, and adds to the bindings; a pattern that does not match adds nothing.
  bool add(const Pattern& pattern, ValueId value);

 private:
  bool add_operands(const std::vector<Pattern>& patterns, const std::vector<ValueId>& operands);
  bool is_read_once(ValueId value) const { return graph_.value(value).uses.size() == 1; }

  const Module& module_;
  const Graph& graph_;
  OpId root_;
  std::vector<std::pair<std::string, ValueId>> named_;
  std::vector<OpId> ops_;
};

/// Writes the replacement. New ops go before the root, with its place, and the origins of all matched ops.
class Rewriter {
 public:
  Rewriter(Module& module, Graph& graph, const Match& match);

  ValueId op(OpKind kind, std::vector<ValueId> inputs, Attrs attrs = {});
  ValueId reshape_to(ValueId x, const Shape& shape) { return build_.reshape_to(x, shape); }
  /// The first elements of x along each dimension, as many as `shape` has.
  ValueId first_of(ValueId x, const Shape& shape);
  ValueId constant(const Tensor& tensor) { return build_.constant(tensor); }
  /// Gives other elements to a constant that only one matched op reads; it keeps its name and type.
  void change(ValueId constant, const Tensor& tensor);

 private:
  Builder build_;
};

struct Rule {
  const char* name;
  Pattern find;
  bool (*when)(const Match& match);  // null: always
  ValueId (*put)(Rewriter& write, const Match& match);
};

/// How often each rule fired.
using RuleCounts = std::vector<std::pair<const Rule*, int>>;

/// Applies rules bottom-up, in all regions, until no rule fires; where `may_join` is false, the matched ops stay apart.
/// Rules that never come to an end are an internal error. Names that are gone are told to the module
/// (Module::note_replaced).
RuleCounts rewrite(
    Module& module, std::span<const Rule> rules,
    const std::function<bool(const Match&)>& may_join = [](const Match&) { return true; });

}  // namespace weftc
