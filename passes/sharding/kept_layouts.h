// The `shard` entries that a user has written already: a plan chooses the rest.
//
//   "h.{l}.mlp.c_fc.weight": {tp: 1}    ->    of this value the layouts S(1,...) on tp alone are chosen from
#pragma once
#include <optional>
#include <set>
#include <string>

#include "passes/layout/layout_requests.h"

namespace weftc {

class KeptLayouts {
 public:
  /// Entries that apply-layouts has found right. Both arguments stay where they are.
  KeptLayouts(const Module& module, const Schedule& schedule);

  /// From here on no rank may have all of a value, or read all of it, if there is a slice that will do.
  void demand_slices(ValueId value) { demanded_.insert(value); }
  bool demands_slices(ValueId value) const { return demanded_.contains(value); }

  /// True if an entry gives a value's layout, or with `use` the one in which readers get it.
  bool has(ValueId value, bool use) const { return (use ? requests_.uses : requests_.results).contains(value); }
  /// True if readers may find a value so. An input or constant gets the layout of its entry alone.
  bool allows(ValueId value, const Layout& layout) const;
  /// True if readers may get a value so.
  bool allows_use(ValueId value, const Layout& layout) const;
  /// How a value lies that nothing but its entry slices; nothing without an entry.
  std::optional<Layout> of(ValueId value) const;
  /// How readers get such a value by its entry for them; nothing without one.
  std::optional<Layout> use_of(ValueId value) const;
  /// Differs for values that different entries are about.
  std::string mark(ValueId value) const;

 private:
  bool is_enough(ValueId value, const Layout& layout) const;
  std::optional<Layout> requested(const LayoutRequest& request, ValueId value, const Layout& arriving) const;

  const Module& module_;
  LayoutRequests requests_;
  std::set<ValueId> demanded_;
};

}  // namespace weftc
