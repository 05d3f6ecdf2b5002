// Rows of a loop: a dimension that every step of its body has, such that each row is computed from that row alone.
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

  /// A launch, by the distance in elements between rows of each operand; nothing for an operand that all rows read as a
  /// whole.
  struct Launch {
    KernelId kernel;
    Length count;
    std::vector<std::optional<Length>> strides;
    std::string text() const;  // equal launches, and no others, have equal texts
  };
  /// Cached answers, by the texts of launches: networks consist of the same ones many times.
  mutable std::map<std::string, std::optional<BodyRows>> known = {};
};

/// The rows of all buffers and weights of the loop, if row `i` of `buffer` is `block` indices of its dimension `dim`,
/// from `i * block` on. Nothing where the body does more than launch kernels and copy, or where a kernel reads other
/// rows than its own. The number of rows may be a run-time length.
std::optional<SharedRows> rows_of_loop(const RowContext& context, const LoopStep& loop, BufferId buffer, int dim,
                                       int64_t block = 1);

/// The rows along one axis of the values of a kernel, as a launch in such a loop has them; nothing where a row is
/// computed from other rows.
std::optional<BodyRows> rows_of_launch(const Plan& plan, const Module& module, const LaunchStep& launch,
                                       const RowAxis& axis);

/// Whether nothing but the steps of the loop's body touches the buffer. `users`: buffer_users of the Plan.
bool is_inside(const std::vector<int>& users, const LoopStep& loop, BufferId buffer);

/// Whether a copy moves nothing, or moves rows that are contiguous and consecutive.
bool copies_rows(const Plan& plan, const CopyStep& copy, const SharedRows& rows);

/// Whether the launch's kernel, which takes rows as lengths, has them exactly where its buffers have rows, and computes
/// each row from that row of the operands.
bool keeps_rows(const Plan& plan, const LaunchStep& launch, const SharedRows& rows);

}  // namespace weftc
