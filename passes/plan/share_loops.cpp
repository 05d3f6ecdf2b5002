// The step share-loops of planning: on a target whose kernels the threads of a team share, loops whose rows need
// nothing of each other (loop_rows.h) are cut along the rows. Each thread takes some rows through all trips, where
// threads would meet behind every kernel otherwise, which costs small kernels more than they take.
//
//   loop 50 { y_3(8 rows);  y_2_2(8 rows) }
//     ->  each thread: loop 50 { y_3(own rows);  y_2_2(own rows) }
//
// The kernels get the dimension of the rows as a length.
#include <algorithm>
#include <set>

#include "ir/kernel/kernel_body.h"
#include "passes/plan/loop_rows.h"
#include "passes/plan/plan_parts.h"

namespace weftc {

namespace {

/// Fewer rows than two tiles of a product are not worth a second thread.
constexpr int64_t kLeastRows = 2 * SharedRows::kTile;
/// What each thread reads in every trip is to stay in its own cache (MiB-sized second level caches): where it does not,
/// threads that share the columns of a product have less to read.
constexpr int64_t kMostReadByAll = int64_t{1} << 20;

/// A launch in a loop that is shared, with the rows of its kernel's values.
struct RowLaunch {
  LaunchStep* launch;
  std::string user;  // the step's name
  BodyRows rows;
  int64_t count;

  bool is_alike(const RowLaunch& other) const { return rows == other.rows && count == other.count; }
};

class LoopSharer {
 public:
  explicit LoopSharer(PlanDraft& draft) : draft_(draft), plan_(draft.plan) {}

  void run() {
    for (Block& block : plan_.blocks) visit(block.steps);
    std::map<KernelId, std::vector<RowLaunch>> by_kernel;
    for (RowLaunch& launch : launches_) by_kernel[launch.launch->kernel].push_back(std::move(launch));
    for (auto& [kernel, users] : by_kernel) rewrite(kernel, std::move(users));
  }

 private:
  void visit(std::vector<Step>& steps) {
    for (Step& step : steps) {
      if (auto* loop = std::get_if<LoopStep>(&step.what); loop && share(*loop)) continue;
      for (auto* body : bodies_of(step)) visit(*body);
    }
  }

  /// The outermost dimension of what the loop carries that has rows.
  bool share(LoopStep& loop) {
    if (loop.condition || draft_.module.lengths.contains(kOwnRows)) return false;
    for (const BufferId carried : loop.carried) {
      const TensorType& type = plan_.buffer(carried).type;
      for (int d = 0; d < type.ndim(); ++d) {
        if (type.shape[d].bound < kLeastRows) continue;
        const auto rows = rows_of_loop(plan_, draft_.module, loop, carried, d);
        if (!rows || !is_worth_it(loop, *rows)) continue;
        loop.rows = rows;
        note_launches(loop);
        return true;
      }
    }
    return false;
  }

  /// Small kernels, whose threads do not write into each other's cache lines: what a trip makes lives through the whole
  /// loop then, since threads are in different trips.
  bool is_worth_it(const LoopStep& loop, const SharedRows& rows) const {
    constexpr int64_t kCacheLine = 64;
    int64_t held = 0, longest = 0;
    for (const auto& [buffer, stride] : rows.strides) {
      const Buffer& each = plan_.buffer(buffer);
      longest = std::max(longest, stride * dtype_bytes(each.type.dtype));
      if (is_inside(plan_, loop, buffer)) held += each.bytes;
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
          if (operand.weight) weights.insert(operand.weight.index);
          const bool is_read = operand.buffer && !rows.strides.contains(operand.buffer);
          if (is_read && !rows.own.contains(operand.buffer)) buffers.insert(operand.buffer.index);
        }
    int64_t bytes = 0;
    for (uint32_t w : weights) bytes += plan_.weights[w].bytes;
    for (uint32_t b : buffers) bytes += plan_.buffers[b].bytes;
    return bytes;
  }

  /// Those that have rows; what a trip makes for all rows is made by each thread.
  void note_launches(LoopStep& loop) {
    for (Step& step : loop.body) {
      auto* launch = std::get_if<LaunchStep>(&step.what);
      if (!launch) continue;
      BodyRows rows = *rows_of_launch(plan_, draft_.module, *launch, *loop.rows);
      const bool has_rows =
          std::any_of(rows.begin(), rows.end(), [](const AxisState& state) { return state.is(AxisState::Kind::S); });
      if (has_rows) launches_.push_back({launch, step.name, std::move(rows), loop.rows->count});
    }
  }

  int launches_of(KernelId kernel) const {
    int count = 0;
    for (const Block& block : plan_.blocks)
      for_each_step(block.steps, [&](const Step& step) {
        const auto* launch = std::get_if<LaunchStep>(&step.what);
        count += launch && launch->kernel == kernel;
      });
    return count;
  }

  /// The kernel itself takes rows where all of its launches give it the same, and else copies of it do.
  void rewrite(KernelId kernel, std::vector<RowLaunch> users) {
    bool is_free = launches_of(kernel) == static_cast<int>(users.size());
    while (!users.empty()) {
      const auto others = std::stable_partition(users.begin(), users.end(),
                                                [&](const RowLaunch& user) { return user.is_alike(users.front()); });
      is_free = is_free && others == users.end();
      const std::vector<RunExtent> before = plan_.kernel(kernel).extents;
      const KernelId taken = is_free ? kernel : copy_of(kernel);
      take_rows(plan_.kernels[taken.index], users.front());
      for (auto user = users.begin(); user != others; ++user) pass_rows(*user, before, taken);
      users.erase(users.begin(), others);
    }
  }

  KernelId copy_of(KernelId kernel) { return copy_kernel(draft_, kernel, plan_.kernel(kernel).name + "_of_rows"); }

  /// Dimensions of rows become a length in the body and in the parameters, whose memory stays as it is.
  void take_rows(Kernel& kernel, const RowLaunch& user) {
    const Length own = Length::named(kOwnRows, user.count);
    for (uint32_t v = 0; v < user.rows.size(); ++v) {
      if (!user.rows[v].is(AxisState::Kind::S)) continue;
      TensorType type = kernel.body.type(ValueId{v});
      Extent& extent = type.shape[static_cast<size_t>(user.rows[v].dim)];
      extent = run_time_extent(extent.bound, own * user.rows[v].block);
      kernel.body.retype(ValueId{v}, std::move(type));
    }
    for (size_t f = 0; f < kernel.parameters.size(); ++f) {
      Parameter& parameter = kernel.parameters[f];
      const ValueId value = parameter_value(kernel.body, f);
      parameter.type = kernel.body.type(value);
      if (user.rows[value.index].is(AxisState::Kind::S)) parameter.storage.by_bounds = true;
    }
    make_extents(draft_.module, kernel);
  }

  /// The lengths of a launch, in the order in which the kernel has them now.
  void pass_rows(const RowLaunch& user, const std::vector<RunExtent>& before, KernelId taken) {
    std::map<std::string, BufferId> known;
    size_t next = 0;
    for (const RunExtent& extent : before)
      if (extent.is_named()) known[extent.length->text()] = user.launch->lengths[next++];
    user.launch->lengths.clear();
    for (const RunExtent& extent : plan_.kernel(taken).extents)
      if (extent.is_named()) user.launch->lengths.push_back(known[extent.length->text()]);
    if (!(taken == user.launch->kernel)) move_user(plan_, *user.launch, taken, user.user);
  }

  PlanDraft& draft_;
  Plan& plan_;
  std::vector<RowLaunch> launches_;
};

}  // namespace

void share_loops(PlanDraft& draft) {
  if (!draft.plan.target.has_grid()) LoopSharer(draft).run();
}

}  // namespace weftc
