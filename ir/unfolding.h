// Values that are not tensors. A sequence stands for its tensors, an optional for its element or for nothing. Type
// inference replaces each op on such values once types are known, using `unfold` of its record. Later passes see
// tensors only (passes/prepare/unfold_sequences.cpp):
//
//   %s = SplitToSequence(%x), %y = SequenceAt(%s, 1)   ->   %s.0, %s.1 = Split(%x), and what read %y reads %s.1
#pragma once
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "ir/op_def.h"

namespace weftc {

/// The tensors that replace a value of the model.
struct Unfolded {
  enum class Kind : uint8_t { Tensor, Sequence, Nothing };
  Kind kind = Kind::Tensor;
  std::vector<ValueId> tensors;  // one for Tensor, none for Nothing

  static Unfolded tensor(ValueId value) { return {Kind::Tensor, {value}}; }
  static Unfolded sequence(std::vector<ValueId> tensors) { return {Kind::Sequence, std::move(tensors)}; }
  static Unfolded nothing() { return {Kind::Nothing, {}}; }
};
/// The values of a graph that are not tensors.
using UnfoldedValues = std::unordered_map<ValueId, Unfolded>;

/// Builds the replacement of the results of one op, before that op. New ops have no types yet: the pass infers them,
/// and reports errors at the op.
class Unfolding {
 public:
  Unfolding(Module& module, Graph& graph, OpId id, const UnfoldedValues& values, Diags& diags);

  const OpView& op() const { return view_; }
  /// The replacement of an operand: a tensor is itself, an absent operand is Nothing.
  Unfolded operand(int input) const;
  /// The tensors of an operand that must be a sequence; nothing after reporting.
  std::optional<std::vector<ValueId>> sequence(int input) const;
  /// An operand that must be a tensor; nothing after reporting.
  std::optional<ValueId> tensor(int input) const;
  /// The element of an operand that must be one integer, if it is known.
  std::optional<int64_t> known_integer(int input) const;

  /// Reports an error at the op; returns no results.
  template <class... Arguments>
  std::vector<Unfolded> refuse(std::string id, std::string_view pattern, const Arguments&... arguments) const {
    view_.fail(std::move(id), pattern, arguments...);
    return {};
  }

  ValueId add(OpKind kind, std::vector<ValueId> inputs, Attrs attrs = {});
  std::vector<ValueId> add(OpKind kind, std::vector<ValueId> inputs, Attrs attrs, int results);
  ValueId constant(const Tensor& tensor);
  /// Copies the ops of the op's region with its parameters replaced. Returns the values of its outputs.
  std::vector<ValueId> add_body(const std::vector<ValueId>& arguments);

 private:
  Module& module_;
  Graph& graph_;
  OpId id_;
  const UnfoldedValues& values_;
  Op copy_;  // a copy, because adding ops moves those of the graph
  OpView view_;
};

}  // namespace weftc
