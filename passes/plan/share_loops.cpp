// The step share-loops of planning, for targets whose threads of a team share a kernel. It cuts loops whose rows are
// independent (loop_rows.h) along the rows. Each thread takes some rows through all trips. Otherwise threads would meet
// after every kernel, which costs more than small kernels themselves take.
//
//   loop 50 { y_3(8 rows);  y_2_2(8 rows) }
//     ->  each thread: loop 50 { y_3(own rows);  y_2_2(own rows) }
//
// The kernels get the dimension of the rows as a length.
#include <algorithm>
#include <set>

#include "passes/plan/row_kernels.h"

namespace weftc {

namespace {

/// Less than two tiles of a product a thread are not worth a second thread.
constexpr int64_t kLeastRows = 2 * SharedRows::kTile;
/// The operands that each thread reads whole in every trip must fit its own cache (second level caches of about a MiB).
/// Otherwise threads that share the columns of a product have less to read.
constexpr int64_t kMostReadByAll = int64_t{1} << 20;

class LoopSharer {
 public:
  explicit LoopSharer(PlanDraft& draft) : draft_(draft), plan_(draft.plan), context_(plan_, draft.module) {}

  void run() {
    for (Block& block : plan_.blocks) visit(block.steps);
    give_rows(draft_, std::move(launches_));
  }

 private:
  void visit(std::vector<Step>& steps) {
    for (Step& step : steps) {
      if (auto* loop = std::get_if<LoopStep>(&step.what); loop && share(*loop)) continue;
      for (auto* body : bodies_of(step)) visit(*body);
    }
  }

  /// The outermost dimension of the carried values that has rows.
  bool share(LoopStep& loop) {
    if (loop.condition || draft_.module.lengths.contains(row_words(0, 1).length)) return false;
    for (const BufferId carried : loop.carried) {
      const TensorType& type = plan_.buffer(carried).type;
      for (int d = 0; d < type.ndim(); ++d) {
        if (type.shape[d].bound < kLeastRows) continue;
        const auto rows = rows_of_loop(context_, loop, carried, d);
        if (!rows || !is_static(*rows) || !is_worth_it(loop, *rows)) continue;
        loop.rows = rows;
        for (RowLaunch& launch : row_launches(plan_, draft_.module, loop)) launches_.push_back(std::move(launch));
        return true;
      }
    }
    return false;
  }

  /// Whether buffers with rows have no run-time lengths.
  bool is_static(const SharedRows& rows) const {
    return std::all_of(rows.axes[0].strides.begin(), rows.axes[0].strides.end(),
                       [&](const auto& each) { return weftc::is_static(plan_.buffer(each.first).type.shape); });
  }

  /// The kernels must be small, and threads must not write into each other's cache lines. The results of a trip then
  /// live through the whole loop, since threads are in different trips.
  bool is_worth_it(const LoopStep& loop, const SharedRows& rows) const {
    constexpr int64_t kCacheLine = 64;
    int64_t held = 0, longest = 0;
    for (const auto& [buffer, stride] : rows.axes[0].strides) {
      const Buffer& each = plan_.buffer(buffer);
      longest = std::max(longest, stride.high() * dtype_bytes(each.type.dtype));
      if (is_inside(context_.users, loop, buffer)) held += each.bytes;
    }
    return longest * SharedRows::kTile >= kCacheLine && held <= kMostReadByAll &&
           read_by_all(loop, rows) <= kMostReadByAll;
  }

  /// Bytes that a trip of every thread reads as a whole.
  int64_t read_by_all(const LoopStep& loop, const SharedRows& rows) const {
    std::set<uint32_t> weights, buffers;
    for (const Step& step : loop.body)
      if (const auto* launch = std::get_if<LaunchStep>(&step.what))
        for (const Operand& operand : launch->operands) {
          if (operand.weight && !rows.axes[0].weight_strides.contains(operand.weight))
            weights.insert(operand.weight.index);
          const bool is_read = operand.buffer && !rows.axes[0].strides.contains(operand.buffer);
          if (is_read && !rows.own.contains(operand.buffer)) buffers.insert(operand.buffer.index);
        }
    int64_t bytes = 0;
    for (uint32_t w : weights) bytes += plan_.weights[w].bytes;
    for (uint32_t b : buffers) bytes += plan_.buffers[b].bytes;
    return bytes;
  }

  PlanDraft& draft_;
  Plan& plan_;
  const RowContext context_;
  std::vector<RowLaunch> launches_;
};

}  // namespace

void share_loops(PlanDraft& draft) {
  if (!draft.plan.target.has_grid()) LoopSharer(draft).run();
}

}  // namespace weftc
