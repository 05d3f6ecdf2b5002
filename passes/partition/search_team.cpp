// The search of a whole graph: tries regions of many sizes, most often those that gain most.
#include "passes/partition/search_team.h"

#include <algorithm>
#include <atomic>
#include <system_error>
#include <thread>

#include "passes/partition/first_choices.h"
#include "passes/partition/neighbourhood.h"

namespace weftc {

namespace {

// A graph of at most this many nodes is searched as one region too.
constexpr int kMostNodesAtOnce = 1000;
// A graph whose tables have at most this many entries is searched as one region first, and nothing is divided.
constexpr double kMostEntriesAtOnce = 4e6, kMostWorkAtOnce = 1e9;
constexpr int kRoundsAtOnce = 12;
// For at most this many nodes, each choice that could be the best is listed, with its memory.
constexpr int kMostNodesListed = 60;

struct Finding {
  std::vector<int> nodes, choices;
};

/// Results that the searches share. Each search applies the findings of the others where they help.
class Board {
 public:
  Board(double gap, std::function<bool()> is_late) : gap_(gap), is_late_(std::move(is_late)) {}
  bool is_over() const { return is_done_ || is_late_(); }

  void report(const SearchState& state, Finding change) {
    const std::lock_guard lock(mutex_);
    changes_.push_back(std::move(change));
    if (state.assignment.cost >= result_.cost) return;
    result_.cost = state.assignment.cost;
    result_.choices = state.assignment.choices;
    compare_with_bound();
  }
  void report_bound(double bound) {
    const std::lock_guard lock(mutex_);
    result_.lower_bound = std::max(result_.lower_bound, bound);
    compare_with_bound();
  }
  void report_complete() {
    const std::lock_guard lock(mutex_);
    result_.is_complete = true;
    is_done_ = true;
  }
  std::vector<Finding> changes_since(size_t& seen) {
    const std::lock_guard lock(mutex_);
    const std::vector<Finding> news(changes_.begin() + static_cast<std::ptrdiff_t>(seen), changes_.end());
    seen = changes_.size();
    return news;
  }
  SearchResult result() {
    const std::lock_guard lock(mutex_);
    return result_;
  }

 private:
  void compare_with_bound() {
    const double near = std::max(1.0, gap_ * result_.cost);
    if (result_.cost < SearchGraph::kForbidden && result_.lower_bound > result_.cost - near) is_done_ = true;
  }

  std::mutex mutex_;
  std::vector<Finding> changes_;
  SearchResult result_;
  const double gap_;
  const std::function<bool()> is_late_;
  std::atomic<bool> is_done_ = false;
};

/// One size of regions, and its gain so far.
struct RegionKind {
  int nodes;
  RegionEffort effort;
  double gain = 0, work = 0;  // older ones count less
  double all_work = 0;
  int tries = 0;
};

class Searcher {
 public:
  Searcher(const SearchGraph& graph, Board& board, uint64_t seed, double most_work)
      : graph_(graph),
        board_(board),
        state_(graph, Assignment(graph, std::vector<int>(graph.costs.size(), 0)), seed,
               SearchBudget(most_work, [&board] { return board.is_over(); })) {
    for (const auto& [nodes, entries, width, rounds] : {std::tuple{8, 3e3, 20, 3},
                                                        {20, 3e3, 20, 4},
                                                        {50, 3e3, 30, 6},
                                                        {100, 1e4, 50, 8},
                                                        {200, 2e4, 100, 12},
                                                        {400, 5e4, 200, 12},
                                                        {400, 5e3, 30, 6},
                                                        {1500, 3e3, 20, 6},
                                                        {5000, 1e3, 10, 6}})
      if (nodes < graph.size()) kinds_.push_back({nodes, {entries, static_cast<size_t>(width), rounds, true}});
    if (graph.size() <= kMostNodesAtOnce)
      for (const auto& [entries, width] : {std::pair{1e4, 100}, {1e5, 300}, {5e5, 1000}})
        kinds_.push_back({graph.size(), {entries, static_cast<size_t>(width), 8, true}});
  }

  void run() {
    begin();
    eliminate_all();
    for (size_t step = 0; !state_.budget.is_over(); ++step) {
      if (graph_.size() <= kMostNodesListed && step % 8 == 0) list_all(step / 8);
      if (!state_.budget.is_over()) try_kind(pick_kind());
      learn();
    }
  }

 private:
  void begin() {
    for (int tries = 0; tries < 20 && !state_.budget.is_over(); ++tries) {
      state_.assignment = Assignment(graph_, first_choices(graph_, state_.random, tries * 0.001));
      if (state_.assignment.cost < SearchGraph::kForbidden) break;
    }
    if (state_.assignment.cost < SearchGraph::kForbidden) free_memory(graph_, state_);
    if (is_solution()) board_.report(state_, {});
  }

  /// If tables stay small, the search is exact except for memory, and tables give the best choices.
  void eliminate_all() {
    const std::vector<int> all = neighbourhood(graph_, state_, graph_.size());
    const Region whole(graph_, state_.assignment, all, state_.place);
    const EliminationOrder order = elimination_order(whole, 1e3);
    if (order.largest > kMostEntriesAtOnce || order.all > kMostWorkAtOnce) return;
    const double before = state_.budget.spent();
    state_.budget.extend(kMostWorkAtOnce * kRoundsAtOnce);
    search(all, {kMostEntriesAtOnce, 1, kRoundsAtOnce, false});
    state_.budget.extend(state_.budget.spent() - before - kMostWorkAtOnce * kRoundsAtOnce);
  }

  bool is_solution() const {
    return state_.assignment.cost < SearchGraph::kForbidden && state_.assignment.excess() == 0;
  }

  /// Proves it where enough can be listed.
  void list_all(size_t times) {
    RegionEffort effort{1e5, size_t{1000} << std::min<size_t>(times, 8), 4, false};
    search(neighbourhood(graph_, state_, graph_.size()), effort);
  }

  /// The kind that gains most for its work; in some steps the one that has had the least.
  RegionKind& pick_kind() {
    const bool is_trial = state_.random() % 8 == 0;
    const auto is_before = [&](const RegionKind& p, const RegionKind& q) {
      if (is_trial) return p.all_work < q.all_work;
      return p.gain * q.work > q.gain * p.work;
    };
    const bool is_new =
        std::any_of(kinds_.begin(), kinds_.end(), [](const RegionKind& kind) { return kind.tries == 0; });
    if (is_new)
      return *std::min_element(kinds_.begin(), kinds_.end(),
                               [](const RegionKind& p, const RegionKind& q) { return p.tries < q.tries; });
    return *std::min_element(kinds_.begin(), kinds_.end(), is_before);
  }

  void try_kind(RegionKind& kind) {
    const double begin = state_.budget.spent(), before = state_.assignment.cost;
    const int nodes = kind.nodes == graph_.size()
                          ? kind.nodes
                          : kind.nodes / 2 + static_cast<int>(state_.random() % static_cast<uint64_t>(kind.nodes));
    search(neighbourhood(graph_, state_, nodes), kind.effort);
    kind.gain = 0.9 * kind.gain + std::max(0.0, before - state_.assignment.cost);
    const double work = state_.budget.spent() - begin;
    kind.work = 0.9 * kind.work + work;
    kind.all_work += work;
    ++kind.tries;
  }

  void search(const std::vector<int>& nodes, const RegionEffort& effort) {
    const bool is_whole = static_cast<int>(nodes.size()) == graph_.size();
    const RegionResult found = search_region(graph_, state_, nodes, effort);
    if (!found.choices.empty()) {
      const bool had_solution = is_solution();
      state_.assignment.change(graph_, nodes, found.choices);
      if (!had_solution) state_.assignment = Assignment(graph_, state_.assignment.choices);
      if (found.is_better) board_.report(state_, {nodes, found.choices});
    }
    if (!is_whole) return;
    board_.report_bound(found.lower_bound + graph_.base_cost);
    if (found.is_complete) board_.report_complete();
  }

  /// Applies findings of others where they help.
  void learn() {
    for (const Finding& change : board_.changes_since(seen_)) {
      if (change.nodes.empty()) continue;
      Assignment changed = state_.assignment;
      changed.change(graph_, change.nodes, change.choices);
      if (changed.cost < state_.assignment.cost && changed.excess() == 0) state_.assignment = std::move(changed);
    }
    if (++steps_ % 50 != 0) return;
    const SearchResult best = board_.result();
    if (best.cost < state_.assignment.cost) state_.assignment = Assignment(graph_, best.choices);
  }

  const SearchGraph& graph_;
  Board& board_;
  SearchState state_;
  std::vector<RegionKind> kinds_;
  size_t seen_ = 0;
  int steps_ = 0;
};

}  // namespace

SearchResult search_graph(const SearchGraph& graph, const SearchEffort& effort, const std::function<bool()>& is_late) {
  Board board(effort.gap, is_late);
  const auto run = [&](int thread) {
    Searcher(graph, board, effort.seed * 1000 + static_cast<uint64_t>(thread), effort.work).run();
  };
  std::vector<std::thread> others;
  try {
    for (int t = 1; t < effort.threads; ++t) others.emplace_back(run, t);
  } catch (const std::system_error&) {
    // The system has no more threads: the running ones find the same results, only later.
  }
  run(0);
  for (std::thread& other : others) other.join();
  return board.result();
}

}  // namespace weftc
