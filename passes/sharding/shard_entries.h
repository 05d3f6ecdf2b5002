// The `shard` entries of a schedule that lead to chosen layouts: as few as apply-layouts needs to infer the rest, and
// one for the same value of all layers.
#pragma once
#include <set>

#include "ir/schedule.h"
#include "passes/layout/layout_trial.h"
#include "passes/select.h"
#include "passes/sharding/sharding_problem.h"

namespace weftc {

/// A rank's share of the values to which an entry applies.
struct EntryShare {
  int64_t values = 0;              // of all layers
  TensorType type;                 // of the first one, as it is laid out
  int64_t whole = 0, of_rank = 0;  // bytes of all of them
};

/// An entry with its explanation.
struct PlannedEntry {
  ShardEntry entry;
  int64_t saves = 0;       // picoseconds that the graph would take longer without it
  bool is_needed = false;  // without it the graph could not run: it takes kCannotRun
  EntryShare share = {};
};

/// The cost of a graph that cannot run, at least: a quarter of an hour.
inline constexpr int64_t kCannotRun = int64_t{1000} * 1000 * 1000 * 1000 * 1000;

/// Finds entries of a schedule on a mesh that lead to given layouts. `cost` gives the cost of a laid-out graph.
class EntrySearch {
 public:
  using Cost = std::function<int64_t(const Graph& laid_out)>;
  /// `schedule` has the mesh and the user's entries; new entries are added after these, for other values. One entry may
  /// cover a value in all ops of a class.
  EntrySearch(Module& module, LayerClasses classes, Schedule schedule, const KeptLayouts& kept, const Target& target,
              Cost cost);

  EntrySearch(const EntrySearch&) = delete;

  /// Entries that lead to these layouts; their savings are not known yet.
  std::vector<PlannedEntry> find(ChosenLayouts wanted);
  /// The cost with the entries that were found; nothing where they are refused.
  std::optional<int64_t> cost();
  /// Computes the savings of each entry of a plan.
  void add_savings(std::vector<PlannedEntry>& entries);

 private:
  struct Named {
    ShardEntry entry;
    std::vector<ValueId> values;
  };
  void ask_for_sources();
  void ask_for_uses();
  std::optional<int64_t> ask_for_results();
  std::optional<Layout> common_use(ValueId value) const;
  int64_t drop_needless(int64_t cost);
  void use_known_names(int64_t cost);
  bool is_part(ValueId value) const;
  std::vector<ValueId> values_near(ValueId value) const;
  std::optional<Named> about(ValueId value, const Named& named) const;
  using LayoutOf = std::function<Layout(ValueId)>;
  bool add(ValueId value, bool use, const LayoutOf& wanted, const LayoutOf& arriving);
  bool means(const std::string& text, std::vector<ValueId> wanted) const;
  std::optional<LayoutTrial> lay_out();
  std::optional<int64_t> cost_without(size_t entry);

  Module& module_;
  Schedule schedule_;
  const KeptLayouts& kept_;
  const Target& target_;
  const Cost cost_;
  const LayerClasses classes_;
  const SelectableNames names_;
  KnownSelections known_{names_};
  ChosenLayouts wanted_;
  std::vector<Named> added_;
  std::set<std::pair<ValueId, bool>> asked_;
};

/// Adds to each entry of a schedule a rank's share of its values, as a trial has laid them out.
void add_shares(const Module& module, const Schedule& schedule, const LayoutTrial& trial,
                std::vector<PlannedEntry>& entries);

/// The entry that gives a layout to a value that arrives in another one: each axis of the mesh on which they differ.
/// Nothing where no entry can express it.
std::optional<std::vector<AxisRequest>> axis_requests(const TensorType& type, const Layout& layout,
                                                      const Layout& arriving, const Mesh& mesh);

}  // namespace weftc
