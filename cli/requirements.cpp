// A row for each length and each demand; the executable complains of the same.
#include "cli/requirements.h"

#include <cstdio>
#include <map>

#include "cli/json.h"
#include "cli/table.h"
#include "ir/base/diag.h"

namespace weftc {

namespace {

/// Each named length is listed in every place that reads it: here once, by its name.
std::map<std::string, const LengthBuffer*> named_lengths(const Plan& plan) {
  std::map<std::string, const LengthBuffer*> named;
  for (const LengthBuffer& length : plan.lengths) named.emplace(length.name, &length);
  return named;
}

/// "past + seq <= 64", "3 <= seq <= 64".
std::string limit_text(const LengthLimit& limit) {
  const std::string least = limit.least > 0 ? std::to_string(limit.least) + " <= " : "";
  return least + limit.length.text() + " <= " + std::to_string(limit.most);
}

std::string relation_text(const LengthRelation& relation) {
  const std::string where = relation.where == 1 ? "" : " where " + relation.where.text() + " is not 0";
  return relation.left.text() + (relation.may_be_less ? " <= " : " = ") + relation.right.text() + where;
}

/// Who demands it, and what.
std::vector<std::pair<std::string, std::string>> demands_of(const Plan& plan) {
  std::vector<std::pair<std::string, std::string>> demands;
  for (const LengthLimit& limit : plan.limits) demands.emplace_back(limit.what, limit_text(limit));
  for (const LengthDemand& demand : plan.demands)
    demands.emplace_back(demand.relation.what, relation_text(demand.relation));
  return demands;
}

void print_json(const Plan& plan) {
  std::vector<std::string> lengths, demands;
  for (const auto& [name, length] : named_lengths(plan))
    lengths.push_back(json_object({{"name", json_string(name)},
                                   {"most", std::to_string(length->bound)},
                                   {"by_data", length->is_made ? "true" : "false"}}));
  for (const auto& [who, what] : demands_of(plan))
    demands.push_back(json_object({{"of", json_string(who)}, {"demand", json_string(what)}}));
  std::printf("{\"lengths\": %s,\n \"demands\": %s}\n", json_lines(lengths).c_str(), json_lines(demands).c_str());
}

}  // namespace

void print_requirements(const Plan& plan, bool json) {
  if (json) return print_json(plan);
  std::vector<std::vector<std::string>> lengths, demands;
  for (const auto& [name, length] : named_lengths(plan))
    lengths.push_back({printable(name), "<= " + std::to_string(length->bound), length->is_made ? "data decides" : ""});
  for (const auto& [who, what] : demands_of(plan)) demands.push_back({printable(what), printable(who)});
  if (lengths.empty()) std::printf("every dimension is fixed\n");
  if (!lengths.empty()) std::printf("lengths\n%s", table_text(lengths).c_str());
  if (!demands.empty()) std::printf("demands\n%s", table_text(demands).c_str());
}

}  // namespace weftc
