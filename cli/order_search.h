// `order: search`: blocks and their times are those of a first plan; what is found becomes a table of the schedule.
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

/// What an order is searched for: a module whose blocks are in some order yet, and where it will run.
struct OrderedModule {
  const Module& module;
  const Schedule& schedule;
  const Target& target;
  const Machine& machine;
};

/// What is known of an order that was searched.
struct FoundOrder {
  std::vector<OrderEntry> table;
  std::vector<std::string> facts;  // lines: the period and the length, each proved or with a bound; times of the blocks
};

/// The order of the module, for the times of the profile; null: for those of the cost model. Nothing after reporting
/// that no order keeps the limits of memory, or that the profile is of something else.
std::optional<FoundOrder> search_order(const OrderedModule& first, const Profile* profile, Diags& diags);

/// What a search says of a value: "proved optimal", or how far from the best it is at most.
std::string standing(bool is_proved, const std::string& bound);

/// The schedule has that order now.
void take_order(Schedule& schedule, const FoundOrder& order);

/// "[[a, 0], [b, 0]]" as a schedule has it.
std::string table_text(const std::vector<OrderEntry>& table);

}  // namespace weftc
