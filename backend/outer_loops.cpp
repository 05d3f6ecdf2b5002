// On the host, the leading loops are given to the team if together they have enough iterations, each with enough work.
// If the last loop is among them, a task is a run of it, which can still be vectorised. On a grid all loops become one,
// which threads, warps or blocks take in turn.
#include "backend/outer_loops.h"

#include <algorithm>

namespace weftc {

/// With fewer elements than this, another thread costs more than it saves.
static constexpr int64_t kTaskWork = 8192;

namespace {
struct OuterLoop {
  Loop loop;
  size_t axis;
};
std::vector<OuterLoop> flatten(const OuterLoops& outer, const Cuts& cuts) {
  std::vector<OuterLoop> loops;
  for (size_t a = 0; a < outer.axes.size(); ++a)
    for (const Loop& loop : cuts.loops(outer.axes[a]))
      if (loop.extent != 1 || !outer.axes[a].bound.empty()) loops.push_back({loop, a});
  return loops;
}
}  // namespace

/// The number of leading loops given to the team: enough tasks for many threads, each with enough work.
static size_t parallel_loops(const std::vector<OuterLoop>& loops, int64_t work) {
  int64_t total = work;
  for (const OuterLoop& l : loops) total *= l.loop.extent;
  if (total < 2 * kTaskWork) return 0;
  int64_t tasks = 1, rest = total;
  for (size_t i = 0; i < loops.size(); ++i) {
    tasks *= loops[i].loop.extent, rest /= loops[i].loop.extent;
    if (tasks >= 64 || rest <= kTaskWork / 64) return i + 1;
  }
  return loops.size();
}

/// The number of iterations of nested loops together.
static Expr product_of(const std::vector<OuterLoop>& loops, size_t count) {
  Expr product;
  for (size_t i = 0; i < count; ++i) product = i ? binary(product, "*", loops[i].loop.bound) : loops[i].loop.bound;
  return product;
}

/// A range of tasks as runs of the last loop, which stays one that can vectorise:
///
///   for (int64_t task = begin, next; task < end; task = next) {
///     const int64_t first = task % 4096;
///     next = std::min(end, task - first + 4096);
///     const int64_t row = task / 4096;
///     for (int64_t c = first; c < first + (next - task); ++c) {
static void open_runs(LoopScopes& scopes, OpenOuter& open, const std::vector<OuterLoop>& loops,
                      const OuterLoops& outer) {
  const Loop& last = loops.back().loop;
  open.scopes.push_back(std::make_unique<Scope>(&open.inner(), TeamRuns{.run = last.bound, .body = {}}));
  Scope& turn = open.inner();
  std::vector<Loop> before;
  for (size_t i = 0; i + 1 < loops.size(); ++i) before.push_back(loops[i].loop);
  split_number(turn, binary(name("task"), "/", last.bound), before);
  for (size_t i = 0; i + 1 < loops.size(); ++i) scopes.declare_loop(loops[i].loop, outer.axes[loops[i].axis], &turn);
  const Expr end = binary(name("first"), "+", binary(name("next"), "-", name("task")));
  open.scopes.push_back(
      std::make_unique<Scope>(&turn, For{.variable = last.variable, .bound = end, .first = name("first")}));
  scopes.declare_loop(last, outer.axes[loops.back().axis], &open.inner());
}

/// Gives the leading loops to the team and opens them; true if these are all loops, declared too.
static bool open_team(LoopScopes& scopes, OpenOuter& open, const std::vector<OuterLoop>& loops, size_t parallel,
                      const OuterLoops& outer, KernelContext& context) {
  constexpr int64_t kLeastRun = 64;
  context.need({Argument::Kind::Team});
  int64_t inside = outer.work;
  for (size_t i = parallel; i < loops.size(); ++i) inside *= loops[i].loop.extent;
  const int64_t least = std::max<int64_t>(1, kTaskWork / inside);
  const int64_t grain = (least + outer.together - 1) / outer.together * outer.together;
  open.scopes.push_back(std::make_unique<Scope>(
      &scopes.root, TeamTasks{.count = product_of(loops, parallel), .grain = grain, .body = {}}));
  scopes.floor = &open.inner();
  const bool single = parallel == 1;
  if (!single && parallel == loops.size() && loops.back().loop.extent >= kLeastRun) {
    open_runs(scopes, open, loops, outer);
    return true;
  }
  const std::string v = single ? loops[0].loop.variable : "task";
  open.scopes.push_back(
      std::make_unique<Scope>(&open.inner(), For{.variable = v, .bound = name("end"), .first = name("begin")}));
  std::vector<Loop> parts;
  for (size_t i = 0; !single && i < parallel; ++i) parts.push_back(loops[i].loop);
  split_number(open.inner(), name("task"), parts);
  return false;
}

static int64_t whole_warps(int64_t threads) { return (threads + 31) / 32 * 32; }

/// One loop over all iterations, which threads, warps or blocks take in turn.
static void open_grid(LoopScopes& scopes, OpenOuter& open, std::vector<OuterLoop> loops, const OuterLoops& outer,
                      KernelContext& context) {
  const Lanes lanes = scopes.lanes;
  std::optional<OuterLoop> vector;
  if (outer.vector > 1 && loops.back().loop.extent == outer.vector) vector = loops.back(), loops.pop_back();
  int64_t count = 1;
  std::vector<Loop> parts;
  for (const OuterLoop& l : loops) {
    count *= l.loop.extent;
    parts.push_back(l.loop);
  }
  if (lanes == Lanes::Thread) context.cover((count + 255) / 256, std::min<int64_t>(whole_warps(count), 256));
  if (lanes == Lanes::Warp) context.cover((count + 3) / 4, 32 * std::min<int64_t>(count, 4));
  if (lanes == Lanes::Block)
    context.cover(count, std::clamp<int64_t>(whole_warps(outer.work / scopes.row_vector), 32, 256));
  const LoopKind kind = lanes == Lanes::Thread ? LoopKind::Threads
                        : lanes == Lanes::Warp ? LoopKind::Warps
                                               : LoopKind::Blocks;
  if (loops.empty()) {
    // Only one warp or block stores a single row: if the row shares an operand's memory, another one would read
    // elements that are already overwritten.
    const bool row = lanes != Lanes::Thread;
    const Statement once = row ? Statement(For{.kind = kind, .variable = scopes.names.unique("row"), .bound = 1})
                               : Statement(OneLane{.lanes = LoopKind::Threads, .body = {}});
    open.scopes.push_back(std::make_unique<Scope>(&scopes.root, once));
    open.inner().uniform = row;
    // Only one thread may also read: its stores may go to an operand's memory.
    if (!row) scopes.floor = &open.inner();
    return;
  }
  const std::string v =
      parts.size() == 1 ? parts[0].variable : scopes.names.unique(lanes == Lanes::Thread ? "element" : "row_all");
  open.scopes.push_back(std::make_unique<Scope>(
      &scopes.root, For{.kind = kind, .variable = v, .bound = product_of(loops, loops.size())}));
  open.inner().uniform = lanes != Lanes::Thread;
  if (parts.size() > 1) split_number(open.inner(), name(v), parts);
  for (const OuterLoop& l : loops) scopes.declare_loop(l.loop, outer.axes[l.axis], &open.inner());
  if (!vector) return;
  scopes.open_neighbours(open.scopes, vector->loop, outer.axes[vector->axis]);
}

OpenOuter open_outer(LoopScopes& scopes, const OuterLoops& outer, const Cuts& cuts, KernelContext& context) {
  OpenOuter open;
  const std::vector<OuterLoop> loops = flatten(outer, cuts);
  if (scopes.lanes != Lanes::Host) {
    open_grid(scopes, open, loops, outer, context);
    for (const LoopAxis& axis : outer.axes) open.index.push_back(Cuts::index(cuts.loops(axis)));
    scopes.current = &open.inner();
    return open;
  }
  const size_t parallel = parallel_loops(loops, outer.work);
  const bool is_open = parallel && open_team(scopes, open, loops, parallel, outer, context);
  for (size_t i = 0; !is_open && i < loops.size(); ++i) {
    const Loop& loop = loops[i].loop;
    if (i >= parallel) {
      Scope* parent = open.scopes.empty() ? &scopes.root : &open.inner();
      open.scopes.push_back(std::make_unique<Scope>(parent, For{.variable = loop.variable, .bound = loop.bound}));
    }
    scopes.declare_loop(loop, outer.axes[loops[i].axis], &open.inner());
  }
  if (open.scopes.empty()) open.scopes.push_back(std::make_unique<Scope>(&scopes.root, Braces{}));
  for (const LoopAxis& axis : outer.axes) open.index.push_back(Cuts::index(cuts.loops(axis)));
  scopes.current = &open.inner();
  return open;
}

void close_outer(LoopScopes& scopes, OpenOuter& open) {
  for (auto scope = open.scopes.rbegin(); scope != open.scopes.rend(); ++scope) (*scope)->finish();
  scopes.current = scopes.floor = &scopes.root;
}

}  // namespace weftc
