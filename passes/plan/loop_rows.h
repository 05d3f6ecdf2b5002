// Rows of a loop: a dimension that every step of its body has, and of which no step makes one row of another one's.
//
//   loop { z = x[trip] + h R;  h = tanh(z) }      h [8, 128]: rows of 128 elements; R is read by all rows
#pragma once
#include <map>
#include <optional>
#include <vector>

#include "ir/plan.h"
#include "passes/plan/body_rows.h"

namespace weftc {

/// A Plan that is asked for rows, while its kernels stay as they are.
struct RowContext {
  RowContext(const Plan& asked, const Module& its_module);

  const Plan& plan;
  const Module& module;
  const std::vector<int> users;  // buffer_users

  /// A launch by the elements from row to row of its operands: none for what all rows read as a whole.
  struct Launch {
    KernelId kernel;
    Length count;
    std::vector<std::optional<Length>> strides;
    std::string text() const;  // equal launches, and no others, have equal texts
  };
  /// Answers so far, by the texts of launches: networks are made of the same ones over and over.
  mutable std::map<std::string, std::optional<BodyRows>> known = {};
};

/// The rows of all buffers and weights of the loop, if row `i` of `buffer` is `block` indices of its dimension `dim`
/// from `i * block` on; nothing where the body does more than launch kernels and copy, or where a kernel needs other
/// rows than its own. There may be as many as only a run knows.
std::optional<SharedRows> rows_of_loop(const RowContext& context, const LoopStep& loop, BufferId buffer, int dim,
                                       int64_t block = 1);

/// The rows along one axis of the values of a kernel, as a launch in such a loop has them; nothing where it makes a row
/// of others.
std::optional<BodyRows> rows_of_launch(const Plan& plan, const Module& module, const LaunchStep& launch,
                                       const RowAxis& axis);

/// Whether nothing but the steps of the loop's body touches the buffer. `users`: buffer_users of the Plan.
bool is_inside(const std::vector<int>& users, const LoopStep& loop, BufferId buffer);

/// Whether a copy moves nothing, or rows that are one piece each and lie one behind the other.
bool copies_rows(const Plan& plan, const CopyStep& copy, const SharedRows& rows);

/// Whether the launch's kernel, which has rows as lengths, has them where its buffers have rows and nowhere else, and
/// makes each row of that row of others.
bool keeps_rows(const Plan& plan, const LaunchStep& launch, const SharedRows& rows);

}  // namespace weftc
