// `order: search`: takes blocks and their times from a first plan, and makes the order that it finds a table of the
// schedule.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "cli/options.h"
#include "ir/machine.h"
#include "ir/module.h"
#include "ir/schedule.h"
#include "ir/target.h"

namespace weftc {

struct Profile;

/// The input of a search: a module whose blocks are still in some initial order, and its target.
struct OrderedModule {
  const Module& module;
  const Schedule& schedule;
  const Target& target;
  const Machine& machine;
};

/// The result of a search.
struct FoundOrder {
  std::vector<OrderEntry> table;
  std::vector<std::string> facts;  // lines: period and length, each proved or with a bound; block times
};

/// Searches an order of the module for the times of the profile, or if that is null, the cost model's. Returns nullopt
/// after reporting that no order keeps the limits of memory, or that the profile is for another program.
std::optional<FoundOrder> search_order(const OrderedModule& first, const Profile* profile, Diags& diags);

/// The quality of a found value: "proved optimal", or its largest distance from the optimum.
std::string standing(bool is_proved, const std::string& bound);

/// Puts that order into the schedule.
void take_order(Schedule& schedule, const FoundOrder& order);

/// The schedule's text of a table: "[[a, 0], [b, 0]]".
std::string table_text(const std::vector<OrderEntry>& table);

}  // namespace weftc
