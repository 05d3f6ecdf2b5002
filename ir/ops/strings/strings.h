// What the records of strings share. In folding and in the reference a string is its number (ir/string_table.h), so
// that a function of strings is one of integers.
#pragma once
#include <string>
#include <vector>

#include "ir/ops/formula.h"
#include "ir/ops/record.h"
#include "ir/string_table.h"

namespace weftc {

/// A pointwise op whose operands or results are strings. Where a result does not fit an element, nothing is folded: the
/// program refuses it.
OpDef string_function(OpKind kind, const char* name, int operands, const char* scalar, IntFn value, InferFn infer);

/// An op of each string and of whole tables of constants, which its scalar text names as pointers ($1, $2).
OpDef string_look_up(OpKind kind, const char* name, int operands, const char* scalar, EvalFn eval, InferFn infer);

/// True if the operand is of strings; else reports.
bool is_string_operand(const OpView& op, int input);
/// True if every string of a list fits an element; else reports. `what` names them: "a key".
bool are_elements(const OpView& op, const std::vector<std::string>& strings, const char* what);

/// A list of strings, or one of them.
Tensor string_list(const std::vector<std::string>& strings);
Tensor string_scalar(std::string_view string);

/// Where each string stands in a list, whose equal strings count as the first of them: i64, and the length of the list
/// for one that it does not have.
Term position_in(Builder& build, Term x, const std::vector<std::string>& list);

}  // namespace weftc
