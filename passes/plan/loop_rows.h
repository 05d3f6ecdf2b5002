// Rows of a loop: a dimension that every step of its body has, and of which no step makes one row of another one's.
//
//   loop { z = x[trip] + h R;  h = tanh(z) }      h [8, 128]: rows of 128 elements; R is read by all rows
#pragma once
#include <optional>
#include <vector>

#include "ir/plan.h"
#include "passes/plan/body_rows.h"

namespace weftc {

/// The rows of all buffers of the loop, if row `i` of `buffer` is the index `i` of its dimension `dim`; nothing where
/// the body does more than launch kernels, or where one of its kernels needs other rows than its own.
std::optional<SharedRows> rows_of_loop(const Plan& plan, const Module& module, const LoopStep& loop, BufferId buffer,
                                       int dim);

/// The rows of the values of a kernel, as a launch in such a loop has them; nothing where it makes a row of others.
std::optional<BodyRows> rows_of_launch(const Plan& plan, const Module& module, const LaunchStep& launch,
                                       const SharedRows& rows);

/// Whether nothing but the steps of the loop's body touches the buffer.
bool is_inside(const Plan& plan, const LoopStep& loop, BufferId buffer);

/// Whether a copy moves nothing, or rows that are one piece each and lie one behind the other.
bool copies_rows(const Plan& plan, const CopyStep& copy, const SharedRows& rows);

/// Whether the launch's kernel, which has rows as a length, has it where its buffers have rows and nowhere else, and
/// makes each row of that row of others.
bool keeps_rows(const Plan& plan, const LaunchStep& launch, const SharedRows& rows);

/// The length by which the kernels of such loops know how many rows they are given.
inline constexpr const char* kOwnRows = "own rows";

}  // namespace weftc
