// Common code of the records of strings. In folding and in the reference a string is its number (ir/string_table.h), so
// that a function of strings is a function of integers.
#pragma once
#include <string>
#include <vector>

#include "ir/ops/formula.h"
#include "ir/ops/record.h"
#include "ir/string_table.h"

namespace weftc {

/// A pointwise op whose operands or results are strings. If a result does not fit into an element, it is not folded:
/// the program refuses it.
OpDef string_function(OpKind kind, const char* name, int operands, const char* scalar, IntFn value, InferFn infer);

/// An op on each string and on whole constant tables, which its scalar text names as pointers ($1, $2).
OpDef string_look_up(OpKind kind, const char* name, int operands, const char* scalar, EvalFn eval, InferFn infer);

/// True if the operand has strings; else reports.
bool is_string_operand(const OpView& op, int input);
/// True if every string of a list fits into an element; else reports. `what` names them: "a key".
bool are_elements(const OpView& op, const std::vector<std::string>& strings, const char* what);

/// A list of strings, or one of them.
Tensor string_list(const std::vector<std::string>& strings);
Tensor string_scalar(std::string_view string);

/// The position of each string in a list, as i64; the first one of equal strings, or the length of the list if it is
/// absent.
Term position_in(Builder& build, Term x, const std::vector<std::string>& list);

}  // namespace weftc
