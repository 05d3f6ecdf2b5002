// Launches of one kernel with equal rows share one kernel that takes them.
#include "passes/plan/row_kernels.h"

#include <algorithm>
#include <map>

#include "ir/kernel/kernel_body.h"

namespace weftc {

namespace {

/// The dimension of rows becomes a length.
void take_rows(Graph& body, ValueId value, const ValueRows& rows, const Length& own) {
  TensorType type = body.type(value);
  Extent& extent = type.shape[static_cast<size_t>(rows.state.dim)];
  extent = run_time_extent(extent.bound, own * rows.state.block + rows.first);
  body.retype(value, std::move(type));
}

/// Dimensions of rows become lengths in the body and in the parameters, whose memory stays as it is.
void take_rows(const Module& module, Kernel& kernel, const RowLaunch& user) {
  const size_t axes = user.rows.size();
  for (size_t a = 0; a < axes; ++a)
    for (uint32_t v = 0; v < user.rows[a].size(); ++v)
      if (user.rows[a][v].has_rows())
        take_rows(kernel.body, ValueId{v}, user.rows[a][v],
                  Length::named(row_words(a, axes).length, user.counts[a].high()));
  for (size_t f = 0; f < kernel.parameters.size(); ++f) {
    Parameter& parameter = kernel.parameters[f];
    const ValueId value = parameter_value(kernel.body, f);
    for (const BodyRows& rows : user.rows)
      if (rows[value.index].has_rows()) parameter.memory = parameter.type.shape;
    parameter.type = kernel.body.type(value);
  }
  make_extents(module, kernel);
  if (user.kept.kept_bytes) kernel.strategy = user.kept;
}

class RowGiver {
 public:
  explicit RowGiver(PlanDraft& draft) : draft_(draft), plan_(draft.plan) {}

  void run(std::vector<RowLaunch> launches) {
    std::map<KernelId, std::vector<RowLaunch>> by_kernel;
    for (RowLaunch& launch : launches) by_kernel[launch.launch->kernel].push_back(std::move(launch));
    for (auto& [kernel, users] : by_kernel) rewrite(kernel, std::move(users));
  }

 private:
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
      take_rows(draft_.module, plan_.kernels[taken.index], users.front());
      for (auto user = users.begin(); user != others; ++user) pass_rows(*user, before, taken);
      users.erase(users.begin(), others);
    }
  }

  KernelId copy_of(KernelId kernel) { return copy_kernel(draft_, kernel, plan_.kernel(kernel).name + "_of_rows"); }

  /// Passes the lengths of a launch in the order in which the kernel has them now: its former lengths, then the lengths
  /// of the memory that has its rows. The rows themselves are not passed.
  void pass_rows(const RowLaunch& user, const std::vector<RunExtent>& before, KernelId taken) {
    std::map<std::string, BufferId> known;
    for (const LengthBuffer& length : plan_.lengths)
      if (length.place == plan_.kernel(taken).place) known[length.name] = length.buffer;
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
};

}  // namespace

std::vector<RowLaunch> row_launches(const Plan& plan, const Module& module, LoopStep& loop) {
  std::vector<RowLaunch> launches;
  for (Step& step : loop.body) {
    auto* launch = std::get_if<LaunchStep>(&step.what);
    if (!launch) continue;
    RowLaunch found{launch, step.name, {}, {}, {}};
    bool has_rows = false;
    for (const RowAxis& axis : loop.rows->axes) {
      found.rows.push_back(*rows_of_launch(plan, module, *launch, axis));
      found.counts.push_back(axis.count);
      has_rows |= std::any_of(found.rows.back().begin(), found.rows.back().end(),
                              [](const ValueRows& rows) { return rows.has_rows(); });
    }
    if (has_rows) launches.push_back(std::move(found));
  }
  return launches;
}

Kernel with_rows(const PlanDraft& draft, const RowLaunch& launch) {
  Kernel kernel = draft.plan.kernel(launch.launch->kernel);
  take_rows(draft.module, kernel, launch);
  return kernel;
}

void give_rows(PlanDraft& draft, std::vector<RowLaunch> launches) { RowGiver(draft).run(std::move(launches)); }

}  // namespace weftc
