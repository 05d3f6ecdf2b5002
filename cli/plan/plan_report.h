// A plan and its alternatives as plain figures, for the page of `weft plan --page`.
#pragma once
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "ir/layout.h"

namespace weftc {

/// The parts of a time, as a mean over ranks.
struct TimeParts {
  double computing = 0;   // only
  double both = 0;        // both at once
  double exchanging = 0;  // only
  double idle = 0;

  double seconds() const { return computing + both + exchanging + idle; }
};

/// Collectives of one kind, or messages, on one rank.
struct ExchangeRow {
  std::string what;              // "AllReduce over tp"
  int64_t count = 0, bytes = 0;  // that the rank sends or, for messages, receives
  double seconds = 0;
};

/// The plan, or another way to run the model.
struct PlanWay {
  std::string name;                    // as in the table of plans, or its common name: "FSDP"
  bool is_known = false;               // a well-known way, not one from the search
  bool is_bound = false;               // `time` is a lower bound, and nothing else is known
  std::optional<TimeParts> time = {};  // nullopt without a program
  int64_t memory = 0;                  // bytes of a rank
  std::string refused = {};            // why it cannot run
  std::vector<ExchangeRow> exchanges = {};
};

/// A line of the schedule.
struct PlanEntryRow {
  std::string line;                // as in the schedule
  int64_t values = 0;              // the number of values that it matches
  std::string type, layout;        // of the first one
  int64_t whole = 0, of_rank = 0;  // bytes of all values
  std::string saves;
};

/// The search on one mesh.
struct SearchRow {
  std::string mesh;
  std::string outcome;  // "42.1 ms", "at least 43.0 ms: left out", "no layouts fit"
  int64_t ops = 0, classes = 0;
  // Ops by the number of ways to compute them, before and after reduction.
  std::map<int, int64_t> ways = {}, ways_left = {};
  double bound = 0, gap = 0, seconds = 0;  // gap: a fraction of the bound
};

struct PlanReport {
  std::string model, machine, level;
  int ranks = 1;
  int64_t memory = 0;         // of a rank of the machine; 0: unknown
  std::vector<Mesh> stages;   // their meshes: one without a pipeline
  std::vector<PlanWay> ways;  // from the search, the best (the plan) first; then well-known ones
  std::vector<PlanEntryRow> entries;
  std::vector<SearchRow> searches;
  std::string schedule;  // YAML
};

}  // namespace weftc
